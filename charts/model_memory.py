"""Engine settings that depend on how much GPU memory a replica has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """`engine_kwargs` for replicas with up to `up_to_mib` MiB of GPU memory; None: for any."""

    up_to_mib: int | None = None
    engine: Mapping[str, bool | int | float]
