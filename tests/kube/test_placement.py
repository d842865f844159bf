"""The real scheduler places the pods of every settings combination on nodes like those of its node groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
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
    """`place(nodes, pods)`: the pods by name, once each is on a node but for so many that wait, told each of these messages.

    What the scheduler says before it has seen all nodes passes, so nothing is taken as decided before.
    """

    def placed(
        nodes: list[dict[str, Any]], pods: list[dict[str, Any]], *, waiting: int = 0, messages: Sequence[str] = ()
    ) -> dict[str, Any]:
        for node in nodes:
            api.create("/api/v1/nodes", node)
        # New nodes are closed until the node controller has seen that they are ready.
        until(lambda: not [node for node in api.get("/api/v1/nodes")["items"] if _closed(node)], "the nodes are open", WAIT_SECONDS)
        for pod in pods:
            api.create(f"{PODS}?fieldValidation=Strict", pod)
        found: list[dict[str, Any]] = []

        def decided() -> bool:
            found[:] = api.get(PODS)["items"]
            left = [_message(pod) for pod in found if not pod["spec"].get("nodeName")]
            return len(left) == waiting and all(text in message for message in left for text in messages)

        until(
            decided,
            lambda: str([(pod["metadata"]["name"], pod["spec"].get("nodeName"), _message(pod)) for pod in found]),
            WAIT_SECONDS,
        )
        return {pod["metadata"]["name"]: pod for pod in found}

    yield placed
    for pod in api.get(PODS)["items"]:
        api.delete(f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
    for node in api.get("/api/v1/nodes")["items"]:
        api.delete(f"/api/v1/nodes/{node['metadata']['name']}")


def _closed(node: dict[str, Any]) -> bool:
    return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", []))


def _message(pod: dict[str, Any]) -> str:
    """Why the scheduler has not placed it."""
    conditions = pod["status"].get("conditions", [])
    return next((condition.get("message", "") for condition in conditions if condition["type"] == "PodScheduled"), "")


def _placed(pods: dict[str, Any]) -> set[str]:
    return {name for name, pod in pods.items() if pod["spec"].get("nodeName")}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_pod_has_a_node_and_every_worker_one_of_its_own(rendered, place, name: str) -> None:
    pods = place(nodes_of(rendered[name], COMBINATIONS[name]), pods_of(rendered[name]))
    workers = [pod["spec"]["nodeName"] for pod_name, pod in pods.items() if not pod_name.startswith("head")]
    assert len(set(workers)) == len(workers) >= 2
    assert pods["head-0"]["spec"]["nodeName"] not in workers


def test_workers_wait_while_no_device_plugin_has_reported(rendered, place) -> None:
    nodes = nodes_of(rendered["defaults"], {}, devices=False)
    messages = ["Insufficient nvidia.com/gpu", "Insufficient vpc.amazonaws.com/efa"]
    pods = place(nodes, pods_of(rendered["defaults"]), waiting=2, messages=messages)
    assert _placed(pods) == {"head-0"}


def test_one_gpu_node_is_too_few(rendered, place) -> None:
    nodes = sorted(nodes_of(rendered["defaults"], {}), key=lambda node: len(node["spec"]["taints"]))[:2]
    pods = place(nodes, pods_of(rendered["defaults"]), waiting=1, messages=["Insufficient nvidia.com/gpu"])
    assert "head-0" in _placed(pods)


def test_another_taint_keeps_the_workers_off(rendered, place) -> None:
    nodes = nodes_of(rendered["defaults"], {})
    for node in nodes:
        for taint in node["spec"]["taints"]:
            taint["key"] = "example.com/reserved"
    pods = place(nodes, pods_of(rendered["defaults"]), waiting=2, messages=["untolerated taint"])
    assert _placed(pods) == {"head-0"}


def test_another_label_hides_the_gpu_nodes(rendered, place) -> None:
    nodes = nodes_of(rendered["defaults"], {})
    for node in nodes:
        if node["spec"]["taints"]:
            node["metadata"]["labels"]["role"] = "other"
    pods = place(nodes, pods_of(rendered["defaults"]), waiting=2, messages=["didn't match Pod's node affinity/selector"])
    assert _placed(pods) == {"head-0"}
