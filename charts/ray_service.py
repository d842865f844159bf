"""The RayService and what it needs in its namespace."""

import json
from pathlib import Path
from typing import Any

from cdk8s import ApiObject, ApiObjectMetadata, Chart, JsonPatch
from constructs import Construct

from charts.digest import cluster_digest
from charts.serve_config import DECODE_RESOURCE, PREFILL_RESOURCE
from charts.worker_resources import WorkerResources

_GIB = 1024**3
_HEAD_MEMORY_GIB = 8
_HEAD_SHARED_MEMORY_GIB = 2
_TOOLS = Path(__file__).parent / "scripts"
_TOOLS_PATH = "/opt/ray-llm"
_MODEL_CACHE_PATH = "/models"
_REPORT_PORT = 9402

DIGEST_ANNOTATION = "ray-llm/cluster-config"
"""Says which configuration a pod was made with, since KubeRay leaves pods of an earlier one as they are."""


class RayServiceChart(Chart):
    """Service account, tools and the RayService, in the order in which they are applied, in an existing namespace.

    Guarantees: the head asks for no GPU and lands on system nodes; every worker takes a whole GPU node, prefill and
    decode in groups of their own, so the phases never share one; a changed Ray cluster never starts a second one beside
    the first, which would wait for GPUs that are taken (upgrade strategy None).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        namespace: str,
        image: str,
        ray_version: str,
        serve_config: str,
        prefill_workers: int,
        decode_workers: int,
        worker: WorkerResources,
        system_node_labels: dict[str, str],
        gpu_node_labels: dict[str, str],
        gpu_taint_key: str,
        hf_token_secret: str | None,
    ) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        self._name, self._namespace, self._image = name, namespace, image
        self._worker, self._hf_token_secret = worker, hf_token_secret
        self._gpu_node_labels, self._gpu_taint_key = gpu_node_labels, gpu_taint_key
        # Ray pods never talk to the Kubernetes API, so their account holds no token.
        account = self._object("ServiceAccount", "v1", name=name)
        account.add_json_patch(JsonPatch.add("/automountServiceAccountToken", False))
        tools = self._object("ConfigMap", "v1", name=f"{name}-tools")
        tools.add_json_patch(JsonPatch.add("/data", {path.name: path.read_text() for path in sorted(_TOOLS.glob("*.py"))}))
        ray_cluster: dict[str, Any] = {
            "rayVersion": ray_version,
            "headGroupSpec": self._head_group(system_node_labels),
            "workerGroupSpecs": [
                self._worker_group("prefill", workers=prefill_workers, resource=PREFILL_RESOURCE),
                self._worker_group("decode", workers=decode_workers, resource=DECODE_RESOURCE),
            ],
        }
        self.cluster_digest = cluster_digest(ray_cluster)
        """Fingerprint of the Ray cluster's configuration, which every pod made from it carries as an annotation."""
        for group in (ray_cluster["headGroupSpec"], *ray_cluster["workerGroupSpecs"]):
            group["template"]["metadata"] = {"annotations": {DIGEST_ANNOTATION: self.cluster_digest}}
        service = self._object("RayService", "ray.io/v1", name=name)
        service.add_json_patch(
            JsonPatch.add(
                "/spec",
                {
                    "upgradeStrategy": {"type": "None"},
                    "serveConfigV2": serve_config,
                    "rayClusterConfig": ray_cluster,
                },
            )
        )

    def _object(self, kind: str, api_version: str, *, name: str) -> ApiObject:
        return ApiObject(
            self, kind, api_version=api_version, kind=kind, metadata=ApiObjectMetadata(name=name, namespace=self._namespace)
        )

    def _head_group(self, node_labels: dict[str, str]) -> dict[str, Any]:
        memory = f"{_HEAD_MEMORY_GIB}Gi"
        return {
            # No CPU for Ray: nothing but Ray's own processes and Serve's controller runs on the head.
            "rayStartParams": {
                "num-cpus": "0",
                "dashboard-host": "0.0.0.0",
                "object-store-memory": str(_GIB),
            },
            "template": self._pod(
                {
                    "name": "ray-head",
                    "image": self._image,
                    "ports": [
                        {"name": name, "containerPort": port}
                        for name, port in (
                            ("gcs", 6379),
                            ("dashboard", 8265),
                            ("client", 10001),
                            ("serve", 8000),
                            ("metrics", 8080),
                        )
                    ],
                    "resources": {"requests": {"cpu": "1", "memory": memory}, "limits": {"cpu": "2", "memory": memory}},
                },
                node_labels=node_labels,
                shared_memory_gib=_HEAD_SHARED_MEMORY_GIB,
            ),
        }

    def _worker_group(self, phase: str, *, workers: int, resource: str) -> dict[str, Any]:
        quantities = self._worker.quantities()
        return {
            "groupName": phase,
            "replicas": workers,
            "minReplicas": workers,
            "maxReplicas": workers,
            "rayStartParams": {
                # KubeRay puts the value into a shell command as it is, hence the quotes; and reads what is between them
                # as JSON before it passes the number of GPUs, which it does not pass where that fails.
                "resources": f"'{json.dumps({resource: 1})}'",
                "object-store-memory": str(self._worker.shared_memory_gib * _GIB // 2),
            },
            "template": self._pod(
                {
                    "name": "ray-worker",
                    "image": self._image,
                    "env": self._worker_environment(),
                    "resources": {"requests": quantities, "limits": quantities},
                    # libfabric pins memory for the device.
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                },
                node_labels=self._gpu_node_labels,
                shared_memory_gib=self._worker.shared_memory_gib,
                tolerations=[{"key": self._gpu_taint_key, "operator": "Exists", "effect": "NoSchedule"}],
                report=True,
            ),
        }

    def _worker_environment(self) -> list[dict[str, Any]]:
        environment: list[dict[str, Any]] = [
            {"name": "HF_HOME", "value": _MODEL_CACHE_PATH},
            {"name": "HF_XET_HIGH_PERFORMANCE", "value": "1"},
            # The pod asks for no huge pages, and touching one without a limit for them ends the process with SIGBUS.
            {"name": "FI_EFA_USE_HUGE_PAGE", "value": "0"},
        ]
        if self._hf_token_secret:
            reference = {"name": self._hf_token_secret, "key": "token"}
            environment.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
        return environment

    def _pod(
        self,
        container: dict[str, Any],
        *,
        node_labels: dict[str, str],
        shared_memory_gib: int,
        tolerations: list[dict[str, str]] | None = None,
        report: bool = False,
    ) -> dict[str, Any]:
        """A pod template; KubeRay adds the probes, which know Ray's ports and Serve's health."""
        mounts = [
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "model-cache", "mountPath": _MODEL_CACHE_PATH},
            {"name": "tools", "mountPath": _TOOLS_PATH},
        ]
        spec: dict[str, Any] = {
            "serviceAccountName": self._name,
            "automountServiceAccountToken": False,
            # Ray drains for 30 seconds when it is told to end; Kubernetes' default would kill it at just that moment.
            "terminationGracePeriodSeconds": 60,
            "nodeSelector": dict(node_labels),
            "containers": [{**container, "volumeMounts": mounts}],
            "volumes": [
                {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shared_memory_gib}Gi"}},
                {"name": "model-cache", "emptyDir": {}},
                {"name": "tools", "configMap": {"name": f"{self._name}-tools"}},
            ],
        }
        if tolerations:
            spec["tolerations"] = tolerations
        if report:
            mounts.append(_RAY_LOGS)
            spec["volumes"].append({"name": _RAY_LOGS["name"], "emptyDir": {}})
            spec["initContainers"] = [self._report()]
        return {"spec": spec}

    def _report(self) -> dict[str, Any]:
        """Runs beside the worker (an init container that always restarts) and says what its EFA and NIXL did.

        The same image, which the worker pulls anyway; /sys shows it the node's EFA devices without a claim on them.
        """
        quantities = {"cpu": "50m", "memory": "128Mi"}
        return {
            "name": "report",
            "image": self._image,
            "restartPolicy": "Always",
            "command": ["python3", f"{_TOOLS_PATH}/worker_report.py"],
            "ports": [{"name": "report", "containerPort": _REPORT_PORT}],
            "resources": {"requests": quantities, "limits": quantities},
            "volumeMounts": [{"name": "tools", "mountPath": _TOOLS_PATH}, _RAY_LOGS],
        }


# Ray's session folder, shared with the report: it looks for the backend in the engines' logs.
_RAY_LOGS = {"name": "ray-logs", "mountPath": "/tmp/ray"}
