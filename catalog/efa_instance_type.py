"""EC2 instance types with NVIDIA GPUs and EFA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from catalog import _toml


@dataclass(frozen=True, slots=True, kw_only=True)
class EfaInstanceType:
    """One row of efa_instance_types.toml, where the sources stand.

    Guarantees that `efa_interfaces` equals the number of True entries in `network_cards`.

    Attributes:
        memory_mib: host memory in MiB, before anything the system keeps for itself.
        gpu_name: the GPU's market name, such as "L4".
        gpu_memory_mib: memory of one GPU in MiB, as EC2 reports it.
        efa_interfaces: EFA interfaces that the type can have at most.
        network_cards: one entry per network card in index order, True where an EFA interface goes.
        nvme_gb: instance store of the whole instance in GB (10^9 bytes); 0 if it has none.
        gpudirect_rdma: whether the EFA cards read and write GPU memory without a copy through host memory.
        ray_accelerator_type: Ray's `accelerator_type` constant, or None where Ray has none for the GPU.
    """

    name: str
    vcpus: int
    memory_mib: int
    gpu_name: str
    gpu_count: int
    gpu_memory_mib: int
    efa_interfaces: int
    network_cards: tuple[bool, ...]
    nvme_gb: int
    gpudirect_rdma: bool
    ray_accelerator_type: str | None

    @property
    def family(self) -> str:
        """The part of the name before the dot, such as "g6"."""
        return self.name.partition(".")[0]


@cache
def efa_instance_types() -> Mapping[str, EfaInstanceType]:
    """Every known type by its name: G before P, older families first, smaller sizes first. Read-only."""
    data = _toml.read("efa_instance_types")
    return MappingProxyType({row["name"]: _instance_type(row, data["gpus"]) for row in data["types"]})


@cache
def near_alternatives(instance_type: str) -> tuple[str, ...]:
    """Names of known types to use in place of an unknown one; never empty.

    Types of the same family if it has any, else of the family that the data calls nearest, else (also for text that
    is no instance type at all) the smallest types.
    """
    data = _toml.read("efa_instance_types")
    family = instance_type.strip().lower().partition(".")[0]
    family = data["nearest_family"].get(family, family)
    return tuple(row.name for row in efa_instance_types().values() if row.family == family) or tuple(data["smallest"])


def _instance_type(row: dict[str, Any], gpus: dict[str, Any]) -> EfaInstanceType:
    gpu = gpus[row["gpu"]]
    cards = (row["first_card_takes_efa"],) + (True,) * (row["network_cards"] - 1)
    return EfaInstanceType(
        name=row["name"],
        vcpus=row["vcpus"],
        memory_mib=row["memory_mib"],
        gpu_name=gpu["name"],
        gpu_count=row["gpu_count"],
        gpu_memory_mib=gpu["memory_mib"],
        efa_interfaces=row["efa_interfaces"],
        network_cards=cards,
        nvme_gb=row["nvme_gb"],
        gpudirect_rdma=row["gpudirect_rdma"],
        ray_accelerator_type=gpu.get("ray_accelerator_type"),
    )
