"""One setting without which a model family does not run right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequirement:
    """A setting, where it goes and what happens without it."""

    target: Literal["engine", "environment"]
    name: str
    value: bool | int | float | str
    without: str
