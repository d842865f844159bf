"""A control plane whose nodes live: the node agent carries out their pods on this machine."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.account_facts import instance_types
from local.kube.api_client import ApiClient, ApiError
from local.kube.binaries import KubeBinaries
from local.kube.control_plane import ControlPlane
from local.kube.kubelet.image_catalogue import MACHINE
from local.kube.node_agent_process import NodeAgentProcess
from local.kube.node_capacity import NodeCapacity
from local.kube.node_object import node_object
from local.kube.real_kube import free_port
from local.kube.sandbox import GATEWAY, sandboxed
from tests.waiting import until

GPU_LABELS = {"role": "gpu-worker", "nvidia.com/gpu.present": "true"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


@dataclass(slots=True, kw_only=True)
class LivingCluster:
    """Objects by the API; pods of the image that is this machine."""

    control_plane: ControlPlane
    agent: NodeAgentProcess
    folder: Path
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), init=False)

    @property
    def api(self) -> ApiClient:
        return self.control_plane.api

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        run = self.control_plane.kubectl(*arguments, stdin=stdin)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def apply(self, *items: Mapping[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def node(
        self, instance_type: str, *, labels: Mapping[str, str] | None = None, taints: list[dict[str, str]] | None = None
    ) -> str:
        """The name of a new node, once it is ready."""
        number = next(self._numbers)
        vcpus, memory_mib = instance_types()[instance_type][:2]
        made = node_object(
            name=f"node-{number}",
            address=f"10.0.0.{number}",
            zone="sa-east-1a",
            region="sa-east-1",
            instance_type=instance_type,
            labels=dict(labels or {}),
            taints=taints or [],
            capacity=NodeCapacity(vcpus=vcpus, memory_mib=memory_mib, volume_gib=200),
        )
        self.api.create("/api/v1/nodes", made)
        until(lambda: self.condition(f"/api/v1/nodes/node-{number}", "Ready").get("reason") == "KubeletReady", "the node reports")
        return f"node-{number}"

    def run(self, name: str, script: str, **container: Any) -> None:
        """A pod with one container that runs a shell script; `pod` and `metadata` add to the pod."""
        pod, metadata = container.pop("pod", {}), container.pop("metadata", {})
        command = ["/bin/bash", "-c", script]
        containers = [{"name": "main", "image": MACHINE, "command": command, **container}]
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, **metadata},
                "spec": {"terminationGracePeriodSeconds": 2, **pod, "containers": containers},
            }
        )

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """The pod, {} where there is none."""
        try:
            return self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            return {}

    def state(self, name: str) -> dict[str, Any]:
        """The status of a pod's first container."""
        statuses = self.pod(name).get("status", {}).get("containerStatuses", [{}])
        return statuses[0]

    def condition(self, path: str, name: str) -> dict[str, Any]:
        conditions = self.api.get(path).get("status", {}).get("conditions", [])
        return next((found for found in conditions if found["type"] == name), {})

    def ready(self, name: str, namespace: str = "default") -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        until(lambda: self.condition(path, "Ready").get("status") == "True", f"{name} is ready")

    def gone(self, name: str, namespace: str = "default", seconds: float = 30) -> None:
        until(lambda: not self.pod(name, namespace), f"{name} is gone", seconds)

    def log(self, name: str, *arguments: str) -> str:
        return self.kubectl("logs", name, *arguments)

    def events(self, name: str, reason: str, namespace: str = "default") -> list[str]:
        found = self.api.get(f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name={name},reason={reason}")
        return [event["message"] for event in found["items"]]

    def processes(self, text: str) -> list[str]:
        """Commands that contain a text, of all processes of the sandbox."""
        found = subprocess.run(["ps", "-A", "-ww", "-o", "command="], capture_output=True, text=True, check=True).stdout
        return [line for line in found.splitlines() if text in line and "launcher.py" not in line]


@contextmanager
def living_cluster(binaries: KubeBinaries, folder: Path) -> Iterator[LivingCluster]:
    assert sandboxed(), "run it as .venv-local/bin/python -m local.kube.sandbox -- .venv-local/bin/pytest tests/kube"
    control_plane = ControlPlane(binaries=binaries, folder=folder / "control-plane", port=free_port(), addresses=(GATEWAY,))
    control_plane.start()
    agent = NodeAgentProcess(control_plane=control_plane, folder=folder / "nodes")
    try:
        agent.start()
        yield LivingCluster(control_plane=control_plane, agent=agent, folder=folder)
    finally:
        agent.stop()
        control_plane.stop()
