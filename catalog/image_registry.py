"""Amazon ECR registries that AWS publishes images in, one account per region."""

from __future__ import annotations

from functools import cache
from typing import Any

from catalog import _toml
from catalog.unknown_region_error import UnknownRegionError

__all__ = ["UnknownRegionError", "deep_learning_containers_regions", "deep_learning_containers_registry", "eks_addon_registry"]


def deep_learning_containers_registry(region: str) -> str:
    """Host name of the region's AWS Deep Learning Containers registry.

    Raises:
        UnknownRegionError: if image_registries.toml has no such registry for the region.
    """
    return _registry("deep_learning_containers", region)


def deep_learning_containers_regions() -> tuple[str, ...]:
    """The regions with a Deep Learning Containers registry, sorted."""
    return _regions("deep_learning_containers")


def eks_addon_registry(region: str) -> str:
    """Host name of the region's registry of Amazon EKS add-on images.

    Raises:
        UnknownRegionError: if image_registries.toml has no such registry for the region.
    """
    return _registry("eks_addons", region)


@cache
def _data() -> dict[str, Any]:
    return _toml.read("image_registries")


def _regions(name: str) -> tuple[str, ...]:
    return tuple(sorted(_data()[name]["accounts"]))


def _registry(name: str, region: str) -> str:
    data = _data()
    account = data[name]["accounts"].get(region)
    if account is None:
        raise UnknownRegionError(registry=data[name]["title"], known=_regions(name))
    domain = data["domains"].get(region.partition("-")[0], data["domains"]["default"])
    return f"{account}.dkr.ecr.{region}.{domain}"
