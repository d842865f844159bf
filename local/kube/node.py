"""The node object of an instance, as its kubelet registers it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from local.kube.binaries import kubernetes_version
from local.kube.node_capacity import NodeCapacity


def node_object(
    *,
    name: str,
    address: str,
    zone: str,
    region: str,
    instance_type: str,
    labels: Mapping[str, str],
    taints: list[dict[str, str]],
    capacity: NodeCapacity,
    devices: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A node that is Ready. `devices` are extended resources, which a node has only after a device plugin reported them."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                **labels,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name,
                "node.kubernetes.io/instance-type": instance_type,
                "topology.kubernetes.io/region": region,
                "topology.kubernetes.io/zone": zone,
            },
        },
        "spec": {"providerID": f"aws:///{zone}/i-{secrets.token_hex(9)[:17]}", "taints": taints},
        "status": {
            "capacity": {**capacity.capacity(), **(devices or {})},
            "allocatable": {**capacity.allocatable(), **(devices or {})},
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "InstanceStarted",
                    "message": "the local node agent has not reported yet",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
            ],
            "nodeInfo": _node_info(),
        },
    }


def _node_info() -> dict[str, str]:
    """The fields are required; what has no meaning here is empty."""
    names = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeProxyVersion")
    return {
        **dict.fromkeys(names, ""),
        "kubeletVersion": f"v{kubernetes_version()}",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
