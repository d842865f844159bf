"""One Ray node of the local cluster, standing for one pod of the RayService."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """What the pod would tell Ray that it has. Ray takes the numbers as they are: the GPUs need not exist."""

    group: str
    cpus: int
    gpus: int
    resources: Mapping[str, float] = field(default_factory=dict)
