"""Kubernetes versions on Amazon EKS and how long each is supported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from types import MappingProxyType
from typing import Literal

from catalog import _toml


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesVersion:
    """One row of kubernetes_versions.toml, where the sources stand.

    Attributes:
        version: the minor version, such as "1.35".
        standard_support_ends: the day (UTC) on which extended support, and its price, begins.
        extended_support_ends: the day (UTC) from which EKS makes no cluster of the version and upgrades those that exist.
        support: the support on the data file's own date, not today's.
        kubectl_layer: the kubectl layer whose kubectl is within one minor version, such as "v35"; None if there is none.
    """

    version: str
    standard_support_ends: date
    extended_support_ends: date
    support: Literal["standard", "extended", "ended"]
    kubectl_layer: str | None


@cache
def kubernetes_versions() -> Mapping[str, KubernetesVersion]:
    """Every known version by its name, oldest first. Read-only."""
    data = _toml.read("kubernetes_versions")
    layers = {version: layer for layer, versions in data["kubectl_layers"].items() for version in versions}
    rows = (
        KubernetesVersion(**row, support=_support(row, data["date"]), kubectl_layer=layers.get(row["version"]))
        for row in data["versions"]
    )
    return MappingProxyType({row.version: row for row in rows})


def _support(row: dict[str, date], day: date) -> Literal["standard", "extended", "ended"]:
    if day < row["standard_support_ends"]:
        return "standard"
    return "extended" if day < row["extended_support_ends"] else "ended"
