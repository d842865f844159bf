"""Reads one of the catalog's data files."""

import tomllib
from pathlib import Path
from typing import Any


def read(name: str) -> dict[str, Any]:
    """The data file's content, by its name without the suffix."""
    with (Path(__file__).parent / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)
