"""Instances of ministack's EKS node groups as nodes of the cluster, which the node agent brings to life."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ministack.services import ec2, eks

from local.account_facts import instance_types
from local.kube.api_client import ApiClient, ApiError
from local.kube.docker_stand_in import DockerStandIn
from local.kube.node_capacity import NodeCapacity
from local.kube.node_object import node_object

_log = logging.getLogger("node-groups")
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_LABEL = "eks.amazonaws.com/nodegroup"
INTERVAL_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class NodeGroups:
    """Keeps as many nodes as every group desires, in the group's zones, with its labels and taints.

    A node that is deleted is replaced by one of another name, as an Auto Scaling group replaces an instance. Nodes of a
    deleted group are deleted. A new node is Ready; from then on its heartbeat is the node agent's.
    """

    clusters: DockerStandIn
    _stop: threading.Event = field(default_factory=threading.Event, init=False)

    def install(self) -> None:
        """Look after the groups from now on."""
        threading.Thread(target=self._watch, daemon=True, name="node-groups").start()

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            for (account, region, name), _ in list(eks._clusters.all_items()):
                control_plane = self.clusters.control_plane(name)
                if control_plane:
                    try:
                        self.reconcile(control_plane.api, _groups(name, account, region))
                    except ApiError as error:
                        _log.warning("nodes of %s: %s", name, error)

    def reconcile(self, api: ApiClient, groups: list[dict[str, Any]]) -> None:
        """Once: delete and create nodes until they are those of the groups."""
        nodes = [node for node in api.get("/api/v1/nodes")["items"] if _LABEL in node["metadata"]["labels"]]
        wanted = {group["nodegroupName"]: group for group in groups}
        for node in nodes:
            group = wanted.get(node["metadata"]["labels"][_LABEL])
            if group is None or _position(node, nodes) >= group["scalingConfig"]["desiredSize"]:
                api.delete(f"/api/v1/nodes/{node['metadata']['name']}")
        used = {node["metadata"]["name"] for node in nodes}
        for group in groups:
            have = [node for node in nodes if node["metadata"]["labels"][_LABEL] == group["nodegroupName"]]
            for number in range(len(have), group["scalingConfig"]["desiredSize"]):
                made = node_of(group, number=number, used=used)
                used.add(made["metadata"]["name"])
                api.create("/api/v1/nodes", made)


def node_of(group: dict[str, Any], *, number: int, used: set[str]) -> dict[str, Any]:
    """The node object of one more instance of the group; its name is not in `used`."""
    subnet = _scoped(ec2._subnets, group["subnets"][number % len(group["subnets"])], group)
    zone, region = subnet["AvailabilityZone"], group["nodegroupArn"].split(":")[3]
    data = _launch_template(group)
    instance_type = data.get("InstanceType") or group["instanceTypes"][0]
    vcpus, memory_mib = instance_types()[instance_type][:2]
    volume = next((int(device["Ebs"]["VolumeSize"]) for device in data.get("BlockDeviceMappings", [])), group["diskSize"])
    name, address = _free_address(subnet["CidrBlock"], region, used)
    return node_object(
        name=name,
        address=address,
        zone=zone,
        region=region,
        instance_type=instance_type,
        labels={**group["labels"], _LABEL: group["nodegroupName"], "eks.amazonaws.com/capacityType": group["capacityType"]},
        taints=[
            {"key": taint["key"], "value": taint.get("value", ""), "effect": _EFFECTS[taint["effect"]]} for taint in group["taints"]
        ],
        capacity=NodeCapacity(vcpus=vcpus, memory_mib=memory_mib, volume_gib=volume),
    )


def _position(node: dict[str, Any], nodes: list[dict[str, Any]]) -> int:
    """Which of its group a node is, the oldest first."""
    group = [other for other in nodes if other["metadata"]["labels"][_LABEL] == node["metadata"]["labels"][_LABEL]]
    group.sort(key=lambda other: (other["metadata"]["creationTimestamp"], other["metadata"]["name"]))
    return group.index(node)


def _groups(cluster: str, account: str, region: str) -> list[dict[str, Any]]:
    return [
        group
        for (owner, where, key), group in list(eks._nodegroups.all_items())
        if (owner, where) == (account, region) and key.startswith(f"{cluster}/")
    ]


def _scoped(store: Any, key: str, group: dict[str, Any]) -> Any:
    """An entry of a store of the group's account and region; the thread here has no request that would name them."""
    _, _, _, region, account, _ = group["nodegroupArn"].split(":", 5)
    return store.get_scoped(account, region, key)


def _launch_template(group: dict[str, Any]) -> dict[str, Any]:
    reference = group.get("launchTemplate")
    if not reference:
        return {}
    template = _scoped(ec2._launch_templates, reference["id"], group)
    version = str(reference.get("version") or template["DefaultVersionNumber"])
    return next(entry["LaunchTemplateData"] for entry in template["Versions"] if str(entry["VersionNumber"]) == version)


def _free_address(cidr: str, region: str, used: set[str]) -> tuple[str, str]:
    for address in _addresses(cidr):
        name = f"ip-{str(address).replace('.', '-')}.{region}.compute.internal"
        if name not in used:
            return name, str(address)
    raise LookupError(f"{cidr} has no free address")


def _addresses(cidr: str) -> Iterator[ipaddress.IPv4Address]:
    """Of a subnet in an order that does not repeat soon, so that a replacement has a name of its own."""
    network = ipaddress.IPv4Network(cidr)
    first, count = 10, network.num_addresses - 20
    start = secrets.randbelow(count)
    return (network[first + (start + offset) % count] for offset in range(count))
