"""Zone and subnet choice: the decisions, and the handler around them with recorded EC2 answers."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from constructs.gpu_zones.handler import index
from hypothesis import given, strategies as st

TYPE = "g6.8xlarge"
NAMES = [f"sa-east-1{letter}" for letter in "abcdef"]


def zones(offering: list[str], usable: list[str], wanted: str = "", regions: list[str] | None = None) -> list[str]:
    return index.choose_zones(
        offering=offering, usable=usable, wanted_zone=wanted, instance_type=TYPE, count=3, regions_offering=regions or []
    )


def test_offering_zones_come_first_and_sorted() -> None:
    assert zones(["sa-east-1c", "sa-east-1b"], NAMES[:4]) == ["sa-east-1b", "sa-east-1c", "sa-east-1a"]


def test_zones_without_a_control_plane_are_left_out() -> None:
    assert zones(["sa-east-1a", "sa-east-1b"], ["sa-east-1b", "sa-east-1c"]) == ["sa-east-1b", "sa-east-1c", "sa-east-1b"]


def test_wanted_zone_wins() -> None:
    assert zones(["sa-east-1a", "sa-east-1c"], NAMES[:3], wanted="sa-east-1c") == ["sa-east-1c", "sa-east-1a", "sa-east-1b"]


@pytest.mark.parametrize(
    ("offering", "usable", "wanted", "regions", "expected"),
    [
        ([], NAMES[:3], "", ["us-east-1"], "This region does not offer it. Regions that offer it: us-east-1."),
        (["sa-east-1c"], NAMES[:2], "", [], "not offered in any zone that EKS can use here"),
        (["sa-east-1a"], NAMES[:2], "sa-east-1b", [], "in GPU_AZ=sa-east-1b. This region offers it in sa-east-1a."),
        (["sa-east-1a"], NAMES[:2], "sa-east-1f", [], "GPU_AZ=sa-east-1f is not a zone that EKS can use here"),
        (["sa-east-1a"], ["sa-east-1a"], "", [], "EKS needs two availability zones"),
    ],
)
def test_failures_say_what_is_missing_and_where_it_is(offering, usable, wanted, regions, expected) -> None:
    with pytest.raises(index.GpuZonesError) as caught:
        zones(offering, usable, wanted, regions)
    assert expected in str(caught.value)


@given(
    offering=st.lists(st.sampled_from(NAMES), unique=True),
    usable=st.lists(st.sampled_from(NAMES), unique=True),
    wanted=st.sampled_from(["", *NAMES]),
)
def test_every_choice_is_usable_has_two_zones_and_starts_with_an_offering_one(offering, usable, wanted) -> None:
    try:
        chosen = zones(offering, usable, wanted)
    except index.GpuZonesError:
        assert not set(offering) & set(usable) or len(usable) < 2 or (wanted and wanted not in set(offering) & set(usable))
        return
    assert set(chosen) <= set(usable)
    assert len(set(chosen)) >= 2
    assert chosen[0] in offering
    assert chosen[0] == wanted or not wanted
    assert len(chosen) == 3


SUBNETS = [("subnet-1", "sa-east-1a"), ("subnet-2", "sa-east-1b"), ("subnet-3", "sa-east-1c")]


def subnet(offering: list[str], wanted: str = "", current: str = "") -> tuple[str, str]:
    return index.choose_subnet(
        subnets=SUBNETS,
        offering=offering,
        wanted_zone=wanted,
        current_subnet=current,
        instance_type=TYPE,
        regions_offering=["us-east-1"],
    )


def test_first_fitting_subnet_is_chosen() -> None:
    assert subnet(["sa-east-1c", "sa-east-1b"]) == ("subnet-2", "sa-east-1b")


def test_current_subnet_is_kept_while_its_zone_offers_the_type() -> None:
    assert subnet(["sa-east-1b", "sa-east-1c"], current="subnet-3") == ("subnet-3", "sa-east-1c")
    assert subnet(["sa-east-1b"], current="subnet-3") == ("subnet-2", "sa-east-1b")


def test_wanted_zone_beats_the_current_subnet() -> None:
    assert subnet(["sa-east-1b", "sa-east-1c"], wanted="sa-east-1b", current="subnet-3") == ("subnet-2", "sa-east-1b")


@pytest.mark.parametrize(
    ("offering", "wanted", "expected"),
    [
        (["sa-east-1f"], "", "not offered in the zones of this VPC (sa-east-1a, sa-east-1b, sa-east-1c)"),
        (["sa-east-1a", "sa-east-1f"], "sa-east-1f", "GPU_AZ=sa-east-1f is outside this VPC"),
        (["sa-east-1a"], "sa-east-1b", "not offered in GPU_AZ=sa-east-1b. This region offers it in sa-east-1a."),
    ],
)
def test_no_fitting_subnet(offering, wanted, expected) -> None:
    with pytest.raises(index.GpuZonesError) as caught:
        subnet(offering, wanted)
    assert expected in str(caught.value)


class Ec2:
    """EC2 as recorded: zone a has no control plane, the type is offered in b and c of one region."""

    def __init__(self, region: str, offers: dict[str, list[str]], fail: bool, system: str) -> None:
        self.region, self.offers, self.fail, self.system = region, offers, fail, system

    def get_paginator(self, operation: str) -> "Ec2":
        assert operation == "describe_instance_type_offerings"
        return self

    def paginate(self, **arguments: Any) -> list[dict]:
        assert arguments["LocationType"] == "availability-zone"
        if arguments["Filters"][0]["Values"] == ["m7i.xlarge"]:
            return [{"InstanceTypeOfferings": [{"Location": f"us-east-1{letter}"} for letter in self.system]}]
        if self.region in self.offers.get("denied", []):
            raise ClientError({"Error": {"Code": "UnauthorizedOperation"}}, "DescribeInstanceTypeOfferings")
        return [{"InstanceTypeOfferings": [{"Location": zone}]} for zone in self.offers.get(self.region, [])]

    def describe_availability_zones(self, **arguments: object) -> dict:
        assert {"Name": "zone-type", "Values": ["availability-zone"]} in arguments["Filters"]  # type: ignore[operator]
        ids = ["use1-az3", "use1-az1", "use1-az2", "use1-az4"]
        return {"AvailabilityZones": [{"ZoneName": f"us-east-1{x}", "ZoneId": i} for x, i in zip("abcd", ids, strict=True)]}

    def describe_regions(self) -> dict:
        if self.fail:
            raise ClientError({"Error": {"Code": "UnauthorizedOperation"}}, "DescribeRegions")
        return {"Regions": [{"RegionName": "us-west-2"}, {"RegionName": "us-east-1"}, {"RegionName": "af-south-1"}]}


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch):
    def use(offers: dict[str, list[str]], fail: bool = False, system: str = "abcd") -> None:
        monkeypatch.setattr(index, "client", lambda region="us-east-1", _config=None: Ec2(region, offers, fail, system))

    return use


def event(request: str, physical_id: str | None = None, resource: str = "Custom::GpuZones", **properties: object) -> dict:
    return {
        "RequestType": request,
        "ResourceType": resource,
        "ResourceProperties": {
            "InstanceType": TYPE,
            "SystemInstanceType": "m7i.xlarge",
            "WantedZone": "",
            "Count": "3",
            **properties,
        },
        **({"PhysicalResourceId": physical_id} if physical_id else {}),
    }


def test_create_then_update_with_another_type_keeps_the_zones(ec2) -> None:
    ec2({"us-east-1": ["us-east-1a", "us-east-1b", "us-east-1c"]})
    created = index.handler(event("Create"), None)
    assert created == {
        "PhysicalResourceId": "gpu-zones:us-east-1b,us-east-1c,us-east-1d",
        "Data": {"Zone1": "us-east-1b", "Zone2": "us-east-1c", "Zone3": "us-east-1d"},
    }
    ec2({"us-east-1": ["us-east-1d"]})
    assert index.handler(event("Update", created["PhysicalResourceId"], InstanceType="p5.48xlarge"), None) == created


def test_repeated_create_gives_the_same_answer(ec2) -> None:
    ec2({"us-east-1": ["us-east-1b"]})
    assert index.handler(event("Create"), None) == index.handler(event("Create"), None)


def test_failure_names_regions_that_offer_the_type(ec2) -> None:
    ec2({"us-west-2": ["us-west-2a"]})
    with pytest.raises(index.GpuZonesError, match="Regions that offer it: us-west-2"):
        index.handler(event("Create"), None)


def test_zones_without_the_system_type_are_left_out(ec2) -> None:
    ec2({"us-east-1": ["us-east-1b", "us-east-1c", "us-east-1d"]}, system="cd")
    assert index.handler(event("Create"), None)["Data"] == {"Zone1": "us-east-1c", "Zone2": "us-east-1d", "Zone3": "us-east-1c"}
    ec2({"us-east-1": ["us-east-1b"]}, system="")
    assert index.handler(event("Create"), None)["Data"]["Zone1"] == "us-east-1b"


def test_a_region_that_denies_the_question_does_not_hide_the_others(ec2) -> None:
    ec2({"us-west-2": ["us-west-2a"], "denied": ["af-south-1"]})
    with pytest.raises(index.GpuZonesError, match="Regions that offer it: us-west-2"):
        index.handler(event("Create"), None)


def test_failure_without_permission_to_list_regions_is_still_the_reason(ec2) -> None:
    ec2({}, fail=True)
    with pytest.raises(index.GpuZonesError, match="This region does not offer it"):
        index.handler(event("Create"), None)


def test_subnet_follows_the_type_within_the_vpc(ec2) -> None:
    properties = {"SubnetIds": ["subnet-1", "subnet-2"], "Zones": ["us-east-1b", "us-east-1c"]}
    ec2({"us-east-1": ["us-east-1b", "us-east-1c"]})
    first = index.handler(event("Create", resource="Custom::GpuSubnet", **properties), None)
    assert first == {"PhysicalResourceId": "gpu-subnet:subnet-1", "Data": {"SubnetId": "subnet-1", "Zone": "us-east-1b"}}
    ec2({"us-east-1": ["us-east-1c"]})
    second = index.handler(event("Update", "gpu-subnet:subnet-1", resource="Custom::GpuSubnet", **properties), None)
    assert second["Data"] == {"SubnetId": "subnet-2", "Zone": "us-east-1c"}


@pytest.mark.parametrize("resource", ["Custom::GpuZones", "Custom::GpuSubnet"])
def test_delete_asks_nothing_of_aws(resource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "client", lambda *_: pytest.fail("asked AWS"))
    assert index.handler(event("Delete", "anything", resource=resource), None) == {"PhysicalResourceId": "anything"}
