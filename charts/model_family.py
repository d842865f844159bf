"""What a model needs beyond the common settings, looked up by its source. Pure Python, standard library only."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from charts.model_memory import ModelMemory
from charts.model_requirement import ModelRequirement

_TABLE = Path(__file__).with_name("model_families.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """One row of model_families.toml with its profile merged in.

    `pattern` is None for the family of models that no row matches.
    """

    name: str
    profile: str
    pattern: re.Pattern[str] | None
    requirements: tuple[ModelRequirement, ...]
    memory: tuple[ModelMemory, ...]

    @classmethod
    def of(cls, *, model_source: str) -> ModelFamily:
        """The family of a Hugging Face id, a bucket URI or a path, by its last component; never fails.

        A source that says nothing about the model (`s3://bucket/weights`) gets the settings that are safe for any
        architecture.
        """
        name = model_source.rstrip("/").rsplit("/", 1)[-1]
        return next(family for family in model_families() if family.pattern is None or family.pattern.search(name))

    def engine(self, *, replica_memory_mib: int) -> dict[str, Any]:
        """`engine_kwargs` that a replica needs whose GPUs together have this much memory."""
        rows = (row for row in self.memory if row.up_to_mib is None or replica_memory_mib <= row.up_to_mib)
        return {**self._required("engine"), **next(rows).engine}

    def environment(self) -> dict[str, str]:
        """Environment variables that the engine's processes need."""
        return self._required("environment")

    def _required(self, target: str) -> dict[str, Any]:
        return {entry.name: entry.value for entry in self.requirements if entry.target == target}


@cache
def model_families() -> tuple[ModelFamily, ...]:
    """Every family in matching order; the last one, `unknown`, matches everything."""
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    profiles: Mapping[str, Mapping[str, Any]] = table["profiles"]
    rows = [*table["families"], {"name": "unknown", "pattern": None, "profile": "unknown"}]
    return tuple(_family(row=row, profile=profiles[row["profile"]]) for row in rows)


def _family(*, row: Mapping[str, Any], profile: Mapping[str, Any]) -> ModelFamily:
    requirements = [*profile["requirements"], *row.get("requirements", ())]
    return ModelFamily(
        name=row["name"],
        profile=row["profile"],
        pattern=re.compile(row["pattern"], re.IGNORECASE) if row["pattern"] else None,
        requirements=tuple(ModelRequirement(**entry) for entry in requirements),
        memory=tuple(ModelMemory(**entry) for entry in profile["memory"]),
    )
