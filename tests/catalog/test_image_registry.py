"""The image registries: host names per partition, both tables in step, and a readable error."""

import re

import pytest

from catalog.image_registry import (
    UnknownRegionError,
    deep_learning_containers_regions,
    deep_learning_containers_registry,
    eks_addon_registry,
)

REGIONS = deep_learning_containers_regions()


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("registry", [deep_learning_containers_registry, eks_addon_registry])
def test_host_name(registry, region: str) -> None:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    assert re.fullmatch(rf"\d{{12}}\.dkr\.ecr\.{region}\.{re.escape(domain)}", registry(region))


@pytest.mark.parametrize(
    ("registry", "region", "host"),
    [
        (deep_learning_containers_registry, "sa-east-1", "763104351884.dkr.ecr.sa-east-1.amazonaws.com"),
        (deep_learning_containers_registry, "us-east-1", "763104351884.dkr.ecr.us-east-1.amazonaws.com"),
        (deep_learning_containers_registry, "me-south-1", "217643126080.dkr.ecr.me-south-1.amazonaws.com"),
        (deep_learning_containers_registry, "cn-north-1", "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn"),
        (eks_addon_registry, "us-west-2", "602401143452.dkr.ecr.us-west-2.amazonaws.com"),
        (eks_addon_registry, "ap-east-2", "533267051163.dkr.ecr.ap-east-2.amazonaws.com"),
        (eks_addon_registry, "il-central-1", "066635153087.dkr.ecr.il-central-1.amazonaws.com"),
        (eks_addon_registry, "cn-northwest-1", "961992271922.dkr.ecr.cn-northwest-1.amazonaws.com.cn"),
        (eks_addon_registry, "us-gov-west-1", "013241004608.dkr.ecr.us-gov-west-1.amazonaws.com"),
    ],
)
def test_known_hosts(registry, region: str, host: str) -> None:
    assert registry(region) == host


@pytest.mark.parametrize(
    ("registry", "shared", "regions"),
    [(deep_learning_containers_registry, "763104351884", 16), (eks_addon_registry, "602401143452", 17)],
)
def test_accounts_that_are_not_shared_own_one_region(registry, shared: str, regions: int) -> None:
    """China left out: its two regions share one containers account."""
    accounts = [registry(region).partition(".")[0] for region in REGIONS if not region.startswith("cn-")]
    assert accounts.count(shared) == regions
    own = [account for account in accounts if account != shared]
    assert len(own) == len(set(own))


def test_regions_are_sorted_and_unique() -> None:
    assert list(REGIONS) == sorted(set(REGIONS))
    assert len(REGIONS) == 36


@pytest.mark.parametrize("region", ["", "us-east-9", "US-EAST-1", "us-east-1a"])
@pytest.mark.parametrize("registry", [deep_learning_containers_registry, eks_addon_registry])
def test_unknown_region(registry, region: str) -> None:
    with pytest.raises(UnknownRegionError) as caught:
        registry(region)
    text = str(caught.value)
    assert "registry is known" in text
    assert all(known in text for known in ("us-east-1", "sa-east-1", "cn-north-1"))
    assert "REGION=" not in text
    assert "\n" not in text
    assert not isinstance(caught.value, LookupError)


def test_deep_learning_containers_are_not_known_in_govcloud() -> None:
    with pytest.raises(UnknownRegionError, match="Deep Learning Containers"):
        deep_learning_containers_registry("us-gov-west-1")
