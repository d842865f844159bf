"""From the RayService to a chat completion: real operator, real scheduler, real Ray, the stand-in engine."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from constructs.verification.handler import index
from constructs.verification.handler.kubernetes_api import KubernetesApi

from local.kube.api_client import ApiError
from local.kube.chart_repository import ChartRepository
from tests.kube.living_cluster import GPU_LABELS, GPU_TAINT, LivingCluster, living_cluster
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE, NAME = "inference", "ray-llm"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SERVICE = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayservices/{NAME}"
START_SECONDS = 300.0


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("deployment") / "deployment.json"
    command = [ROOT / ".venv" / "bin" / "python", "-m", "tests.kube.deployment", file]
    subprocess.run(command, cwd=ROOT, check=True)
    return json.loads(file.read_text())


@pytest.fixture(scope="module")
def cluster(
    binaries, charts: ChartRepository, deployment: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LivingCluster]:
    """One system node and two GPU nodes, with the device plugins and the operator installed by helm."""
    folder = tmp_path_factory.mktemp("living")
    with living_cluster(binaries, folder) as running:
        running.node("m7i.xlarge", labels={"role": "system"})
        for _ in range(2):
            running.node("g6.8xlarge", labels=GPU_LABELS, taints=[GPU_TAINT])
        environment = {**os.environ, **running.control_plane.client_environment}
        for chart in deployment["charts"]:
            values = folder / "values.json"
            values.write_text(chart["Values"])
            command = [binaries.path("helm"), "install", chart["Release"], chart["Chart"], "--repo", charts.url]
            options = ["--version", chart["Version"], "--namespace", chart["Namespace"], "--create-namespace", "--values", values]
            run = subprocess.run([*command, *options, "--wait"], env=environment, capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stderr
        yield running


@pytest.fixture(scope="module")
def service(cluster: LivingCluster, deployment: dict[str, Any]) -> LivingCluster:
    """The RayService is Running."""
    manifests = sorted(deployment["manifests"], key=lambda item: item["kind"] != "Namespace")
    cluster.apply(*manifests)
    until(lambda: status(cluster).get("serviceStatus") == "Running", "the RayService is Running", START_SECONDS)
    return cluster


def status(cluster: LivingCluster) -> dict[str, Any]:
    return cluster.api.get(SERVICE).get("status", {})


def pods(cluster: LivingCluster, group: str) -> list[dict[str, Any]]:
    """Pods of the head (`headgroup`) or a worker group that are not on their way out."""
    found = cluster.api.get(f"{PODS}?labelSelector=ray.io%2Fgroup%3D{group}")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def ready(pod: dict[str, Any]) -> bool:
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in pod["status"].get("conditions", []))


def chat(cluster: LivingCluster, text: str) -> str:
    """A streamed answer through the API server's proxy to the Service."""
    question = {"model": "qwen3.5-9b", "messages": [{"role": "user", "content": text}], "stream": True}
    path = f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}-serve-svc:8000/proxy/v1/chat/completions"
    request = urllib.request.Request(cluster.api.server + path, data=json.dumps(question).encode())
    request.add_header("Authorization", f"Bearer {cluster.api.token}")
    request.add_header("Content-Type", "application/json")
    pieces, ended = [], False
    with urllib.request.urlopen(request, context=cluster.api.context, timeout=60) as lines:
        for line in lines:
            data = line.decode().removeprefix("data: ").strip()
            if data == "[DONE]":
                ended = True
            elif data:
                pieces += [choice["delta"].get("content") or "" for choice in json.loads(data)["choices"]]
    assert ended, "".join(pieces)
    return "".join(pieces).strip()


def answers(cluster: LivingCluster, text: str) -> bool:
    try:
        return chat(cluster, text) == f"You said: {text}"
    except (OSError, ApiError, AssertionError, ValueError):
        return False


def verified(cluster: LivingCluster, deployment: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The attributes of Custom::Verification, from its own handler, asked until it is complete."""
    authority = cluster.control_plane.certificates.authority.read_text()
    api = KubernetesApi(endpoint=cluster.api.server, certificate_authority=authority, token=cluster.api.token)
    monkeypatch.setattr(index, "_api", lambda _: api)
    properties = {name: str(value) for name, value in deployment["verification"].items()}
    event = {"ResourceType": "Custom::Verification", "RequestType": "Create", "ResourceProperties": properties}
    event["Data"] = index.on_event(event, None)["Data"]
    return until(lambda: (found := index.is_complete(event, None))["IsComplete"] and found["Data"], "it completes", 180)


def test_every_ray_pod_is_where_the_manifest_wants_it(service: LivingCluster) -> None:
    nodes = {
        group: [service.api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}") for pod in pods(service, group)]
        for group in ("headgroup", "prefill", "decode")
    }
    roles = {group: [node["metadata"]["labels"]["role"] for node in found] for group, found in nodes.items()}
    assert roles == {"headgroup": ["system"], "prefill": ["gpu-worker"], "decode": ["gpu-worker"]}
    names = [node["metadata"]["name"] for group in ("prefill", "decode") for node in nodes[group]]
    assert len(set(names)) == 2


def test_kuberay_tells_ray_the_gpus_and_the_custom_resources(service: LivingCluster) -> None:
    for phase in ("prefill", "decode"):
        (pod,) = pods(service, phase)
        (command,) = pod["spec"]["containers"][0]["args"]
        assert "--num-gpus=1 " in command
        assert f"""--resources='{{"pd_{phase}": 1}}'""" in command


def test_a_streamed_answer_comes_through_the_service(service: LivingCluster) -> None:
    text = "Explain the benefits of disaggregation."
    assert chat(service, text) == f"You said: {text}"


def test_the_verification_finds_proof_of_everything(service: LivingCluster, deployment, monkeypatch) -> None:
    assert deployment["verification"]["Verify"] == "strict"
    found = verified(service, deployment, monkeypatch)
    placed = {phase: pods(service, phase)[0]["spec"]["nodeName"] for phase in ("prefill", "decode")}
    assert (found["PrefillNodes"], found["DecodeNodes"]) == (placed["prefill"], placed["decode"])
    assert found["KvTransferBackend"] == "LIBFABRIC"
    assert int(found["EfaBytesPerRequest"]) > 1024 * 1024


def test_logs_of_ray_are_there(service: LivingCluster) -> None:
    (head,) = pods(service, "headgroup")
    assert "Ray runtime started." in service.log(head["metadata"]["name"], "-n", NAMESPACE)


def test_a_worker_whose_ray_dies_starts_again_in_its_pod(service: LivingCluster) -> None:
    (before,) = pods(service, "decode")
    name = before["metadata"]["name"]
    for line in subprocess.run(["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    ):
        if "raylet/raylet" in line and f"--node_ip_address={before['status']['podIP']}" in line:
            os.kill(int(line.split()[0]), 9)

    def restarted() -> bool:
        found = service.pod(name, NAMESPACE)["status"]["containerStatuses"]
        return any(entry["name"] == "ray-worker" and entry["restartCount"] == 1 for entry in found)

    until(restarted, "the container is started again", 120)
    until(lambda: answers(service, "after the crash"), "the service answers", START_SECONDS)


def test_a_deleted_worker_pod_is_replaced(service: LivingCluster, deployment, monkeypatch) -> None:
    (before,) = pods(service, "prefill")
    service.kubectl("delete", "pod", before["metadata"]["name"], "-n", NAMESPACE, "--wait=false")
    until(lambda: [pod for pod in pods(service, "prefill") if ready(pod)], "a new pod is ready", START_SECONDS)
    (after,) = pods(service, "prefill")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    until(lambda: answers(service, "after the deletion"), "the service answers", START_SECONDS)
    verified(service, deployment, monkeypatch)


def test_a_lost_node_is_replaced_by_a_new_one(service: LivingCluster) -> None:
    (before,) = pods(service, "decode")
    service.api.delete(f"/api/v1/nodes/{before['spec']['nodeName']}")
    service.node("g6.8xlarge", labels=GPU_LABELS, taints=[GPU_TAINT])
    until(
        lambda: [pod for pod in pods(service, "decode") if ready(pod) and pod["metadata"]["uid"] != before["metadata"]["uid"]],
        "a new pod is ready on the new node",
        START_SECONDS,
    )
    until(lambda: answers(service, "after the loss"), "the service answers", START_SECONDS)


def test_the_deleted_service_leaves_no_pod_and_no_process(service: LivingCluster) -> None:
    service.kubectl("delete", "rayservice", NAME, "-n", NAMESPACE)
    began = time.monotonic()
    until(lambda: not service.api.get(PODS)["items"], "the pods are gone", 120)
    # Every container ends by itself, within the pods' grace.
    assert time.monotonic() - began < 55
    assert not service.processes("raylet/raylet")
