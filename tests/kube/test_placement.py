"""The real scheduler places the pods of every settings combination on nodes like those of its node groups."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from catalog.efa_instance_type import efa_instance_types
from local.account_facts import instance_types
from local.kube.api_client import ApiClient
from local.kube.node_capacity import NodeCapacity
from local.kube.node_object import node_object
from tests.stacks.settings_matrix import COMBINATIONS
from tests.waiting import until

PODS = "/api/v1/namespaces/inference/pods"
EFFECTS = {"NO_SCHEDULE": "NoSchedule"}
WAIT_SECONDS = 20.0
numbers = itertools.count(1)


def nodes_of(found: dict[str, Any], settings: dict[str, str], *, devices: bool = True) -> list[dict[str, Any]]:
    """As many nodes as the groups of a combination ask for."""
    made = []
    for group in found["node_groups"]:
        gpu = bool(group["Taints"])
        name = settings.get("GPU_NODE_TYPE", "g6.8xlarge") if gpu else settings.get("SYSTEM_NODE_TYPE", "m7i.xlarge")
        vcpus, memory_mib = instance_types()[name][:2]
        for _ in range(int(group["ScalingConfig"]["DesiredSize"])):
            number = next(numbers)
            row = efa_instance_types().get(name)
            counts = {"nvidia.com/gpu": row.gpu_count, "vpc.amazonaws.com/efa": row.efa_interfaces} if row and devices else {}
            made.append(
                node_object(
                    name=f"node-{number}",
                    address=f"10.0.{number // 250}.{number % 250 + 1}",
                    zone="sa-east-1a",
                    region="sa-east-1",
                    instance_type=name,
                    labels=group["Labels"],
                    taints=[
                        {"key": taint["Key"], "value": taint["Value"], "effect": EFFECTS[taint["Effect"]]}
                        for taint in group["Taints"] or []
                    ],
                    capacity=NodeCapacity(vcpus=vcpus, memory_mib=memory_mib, volume_gib=200),
                    devices={key: str(count) for key, count in counts.items()},
                )
            )
    return made


def pods_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The pods that KubeRay makes of the RayService, as far as the scheduler looks at them."""
    (service,) = [item for item in found["manifests"] if item["kind"] == "RayService"]
    cluster = service["spec"]["rayClusterConfig"]
    groups = [(cluster["headGroupSpec"], 1), *((group, group["replicas"]) for group in cluster["workerGroupSpecs"])]
    made = []
    for group, count in groups:
        spec = {key: value for key, value in group["template"]["spec"].items() if key != "serviceAccountName"}
        for number in range(count):
            name = f"{group.get('groupName', 'head')}-{number}"
            made.append({"metadata": {"name": name}, "spec": {**spec, "automountServiceAccountToken": False}})
    return made


@pytest.fixture
def place(api: ApiClient) -> Iterator[Callable[..., dict[str, Any]]]:
    """`place(nodes, pods)`: the pods by name, once the scheduler has decided about each."""

    def placed(nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> dict[str, Any]:
        for node in nodes:
            api.create("/api/v1/nodes", node)
        # New nodes are closed until the node controller has seen that they are ready.
        until(lambda: not [node for node in api.get("/api/v1/nodes")["items"] if _closed(node)], "the nodes are open", WAIT_SECONDS)
        for pod in pods:
            api.create(f"{PODS}?fieldValidation=Strict", pod)
        until(lambda: all(_decided(pod) for pod in api.get(PODS)["items"]), "the scheduler decides", WAIT_SECONDS)
        return {pod["metadata"]["name"]: pod for pod in api.get(PODS)["items"]}

    yield placed
    for pod in api.get(PODS)["items"]:
        api.delete(f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
    for node in api.get("/api/v1/nodes")["items"]:
        api.delete(f"/api/v1/nodes/{node['metadata']['name']}")


def _closed(node: dict[str, Any]) -> bool:
    return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", []))


def _condition(pod: dict[str, Any]) -> dict[str, str]:
    conditions = pod["status"].get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == "PodScheduled"), {})


def _decided(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName")) or _condition(pod).get("reason") == "Unschedulable"


@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_pod_has_a_node_and_every_worker_one_of_its_own(rendered, place, name: str) -> None:
    pods = place(nodes_of(rendered[name], COMBINATIONS[name]), pods_of(rendered[name]))
    waiting = {pod_name: _condition(pod).get("message") for pod_name, pod in pods.items() if not pod["spec"].get("nodeName")}
    assert not waiting
    workers = [pod["spec"]["nodeName"] for pod_name, pod in pods.items() if not pod_name.startswith("head")]
    assert len(set(workers)) == len(workers) >= 2
    assert pods["head-0"]["spec"]["nodeName"] not in workers


def test_workers_wait_while_no_device_plugin_has_reported(rendered, place) -> None:
    pods = place(nodes_of(rendered["defaults"], {}, devices=False), pods_of(rendered["defaults"]))
    assert pods["head-0"]["spec"].get("nodeName")
    for name in ("prefill-0", "decode-0"):
        assert "Insufficient nvidia.com/gpu" in _condition(pods[name])["message"]
        assert "Insufficient vpc.amazonaws.com/efa" in _condition(pods[name])["message"]


def test_one_gpu_node_is_too_few(rendered, place) -> None:
    system, gpu = sorted(nodes_of(rendered["defaults"], {}), key=lambda node: len(node["spec"]["taints"]))[:2]
    pods = place([system, gpu], pods_of(rendered["defaults"]))
    bound = [name for name in ("prefill-0", "decode-0") if pods[name]["spec"].get("nodeName")]
    assert len(bound) == 1
    (waiting,) = {"prefill-0", "decode-0"} - set(bound)
    assert "Insufficient nvidia.com/gpu" in _condition(pods[waiting])["message"]


def test_another_taint_keeps_the_workers_off(rendered, place) -> None:
    nodes = nodes_of(rendered["defaults"], {})
    for node in nodes:
        for taint in node["spec"]["taints"]:
            taint["key"] = "example.com/reserved"
    pods = place(nodes, pods_of(rendered["defaults"]))
    for name in ("prefill-0", "decode-0"):
        assert "untolerated taint" in _condition(pods[name])["message"]


def test_another_label_hides_the_gpu_nodes(rendered, place) -> None:
    nodes = nodes_of(rendered["defaults"], {})
    for node in nodes:
        if node["spec"]["taints"]:
            node["metadata"]["labels"]["role"] = "other"
    pods = place(nodes, pods_of(rendered["defaults"]))
    for name in ("prefill-0", "decode-0"):
        assert "didn't match Pod's node affinity/selector" in _condition(pods[name])["message"], json.dumps(pods[name]["status"])
