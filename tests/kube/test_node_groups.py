"""A node group that grows, shrinks and goes, in the API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from ministack.services import ec2

from local.kube.api_client import ApiClient
from local.kube.docker_stand_in import DockerStandIn
from local.kube.node_capacity import NodeCapacity
from local.kube.node_groups import NodeGroups

ACCOUNT, REGION = "123456789012", "sa-east-1"


def group(name: str, desired: int, **changes: Any) -> dict[str, Any]:
    """As ministack keeps it."""
    return {
        "nodegroupName": name,
        "nodegroupArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:nodegroup/small/{name}/0",
        "instanceTypes": ["m7i.xlarge"],
        "scalingConfig": {"desiredSize": desired},
        "capacityType": "ON_DEMAND",
        "labels": {"role": name},
        "taints": [],
        "subnets": ["subnet-a", "subnet-b"],
        "diskSize": 20,
        **changes,
    }


@pytest.fixture
def node_groups(binaries, tmp_path, api: ApiClient) -> Iterator[NodeGroups]:
    for number, zone in enumerate("ab"):
        subnet = {"AvailabilityZone": f"{REGION}{zone}", "CidrBlock": f"10.9.{number}.0/24"}
        ec2._subnets.set_scoped(ACCOUNT, REGION, f"subnet-{zone}", subnet)
    yield NodeGroups(clusters=DockerStandIn(binaries=binaries, folder=tmp_path, addresses=()))
    for name in names(api):
        api.delete(f"/api/v1/nodes/{name}")


def names(api: ApiClient, role: str | None = None) -> set[str]:
    nodes = api.get("/api/v1/nodes")["items"]
    return {node["metadata"]["name"] for node in nodes if role in (None, node["metadata"]["labels"]["role"])}


def test_nodes_follow_the_desired_size_and_the_oldest_stay(node_groups: NodeGroups, api: ApiClient) -> None:
    node_groups.reconcile(api, [group("system", 1), group("gpus", 1)])
    first, system = names(api, "gpus"), names(api, "system")
    assert (len(first), len(system)) == (1, 1)
    time.sleep(1.1)  # ages have whole seconds
    node_groups.reconcile(api, [group("system", 1), group("gpus", 3)])
    grown = names(api, "gpus")
    assert len(grown) == 3 and first < grown
    node_groups.reconcile(api, [group("system", 1), group("gpus", 2)])
    assert len(names(api, "gpus")) == 2 and first < names(api, "gpus") < grown
    node_groups.reconcile(api, [group("system", 1)])
    assert names(api) == system


def test_a_lost_node_is_replaced_by_another(node_groups: NodeGroups, api: ApiClient) -> None:
    node_groups.reconcile(api, [group("gpus", 2)])
    (lost, kept) = sorted(names(api))
    api.delete(f"/api/v1/nodes/{lost}")
    node_groups.reconcile(api, [group("gpus", 2)])
    assert len(names(api)) == 2 and kept in names(api) and lost not in names(api)


def test_nodes_of_others_are_left_alone(node_groups: NodeGroups, api: ApiClient) -> None:
    api.create("/api/v1/nodes", {"metadata": {"name": "someone", "labels": {"role": "other"}}})
    node_groups.reconcile(api, [])
    assert names(api) == {"someone"}


def test_the_systems_share_of_an_instance_is_taken_off() -> None:
    """nodeadm's formulas for an m7i.xlarge: 60 + 10 + 5 + 5 millicores, 255 + 11 x 58 MiB and 100 MiB until eviction."""
    capacity = NodeCapacity(vcpus=4, memory_mib=16384, volume_gib=200)
    assert capacity.capacity() == {"cpu": "4", "memory": "15155Mi", "pods": "58", "ephemeral-storage": "200Gi"}
    assert capacity.allocatable() == {"cpu": "3920m", "memory": "14162Mi", "pods": "58", "ephemeral-storage": "179Gi"}
    large = NodeCapacity(vcpus=32, memory_mib=131072, volume_gib=200)
    assert large.allocatable()["cpu"] == "31850m"
    assert large.pods == 234
