"""States of a cluster as the Kubernetes API, KubeRay and Ray report them, for the verification's tests."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from constructs.verification.handler import decisions
from constructs.verification.handler.wanted import Wanted

NOW = datetime(2026, 12, 2, 12, 0, tzinfo=UTC)
DIGEST = "0123456789abcdef"
ARGUMENTS = {"prefill_config": {"x": 0.001}, "decode_config": {"y": [1, 2]}}


def ago(seconds: int) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def pod(name: str, node_type: str = "worker", **changes: Any) -> dict:
    """A running pod; `changes` are status fields, `digest`, `leaving`, `age` in seconds."""
    digest, age = changes.pop("digest", DIGEST), changes.pop("age", 1000)
    made: dict[str, Any] = {
        "metadata": {
            "name": name,
            "creationTimestamp": ago(age),
            "labels": {"ray.io/cluster": changes.pop("cluster", "ray-llm-abcde"), "ray.io/node-type": node_type},
            "annotations": {decisions.DIGEST_ANNOTATION: digest},
        },
        "spec": {"nodeName": f"node-of-{name}"},
        "status": {"phase": "Running", "podIP": f"ip-of-{name}"},
    }
    if changes.pop("leaving", False):
        made["metadata"]["deletionTimestamp"] = ago(5)
    made["status"] |= changes
    return made


def waiting(reason: str, message: str = "", **more: Any) -> dict:
    return {"name": "ray-worker", "image": "registry/ray:tag", "state": {"waiting": {"reason": reason, "message": message}}, **more}


def unschedulable(name: str, *, since: int, message: str) -> dict:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": ago(since),
        "message": message,
    }
    return pod(name, phase="Pending", conditions=[condition])


def ray_service(*, written: int = 1000, status_written: int | None = None, **status: Any) -> dict:
    """A RayService as the API server returns it; `written` and `status_written` are seconds ago."""
    managed = [{"manager": "kubectl-client-side-apply", "operation": "Update", "time": ago(written)}]
    if status_written is not None:
        managed.append({"manager": "manager", "operation": "Update", "subresource": "status", "time": ago(status_written)})
    metadata = {"name": "ray-llm", "uid": "uid-of-ray-llm", "creationTimestamp": ago(5000), "managedFields": managed}
    return {"metadata": metadata, "status": {"serviceStatus": "Running", **status}}


def warning(reason: str, message: str, *, seen: int, kind: str = "RayService", **about: Any) -> dict:
    """An event as KubeRay's recorder writes it, last seen that many seconds ago."""
    about = {"uid": "uid-of-ray-llm", "name": "ray-llm"} | about
    return {
        "involvedObject": {"apiVersion": "ray.io/v1", "kind": kind, **about},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "firstTimestamp": ago(seen + 10),
        "lastTimestamp": ago(seen),
        "eventTime": None,
        "metadata": {"creationTimestamp": ago(seen + 10)},
    }


def replica(name: str) -> dict:
    return {"replica_id": name, "state": "RUNNING", "node_ip": f"ip-of-{name}"}


def application(status: str = "RUNNING", message: str = "", **deployments: dict) -> dict:
    healthy = {
        "Prefill:m": {"status": "HEALTHY", "message": "", "replicas": [replica("w1")]},
        "Decode:m": {"status": "HEALTHY", "message": "", "replicas": [replica("w2")]},
        "OpenAiIngress": {"status": "HEALTHY", "message": "", "replicas": [replica("w1"), replica("w2")]},
    }
    return {
        "name": "qwen",
        "status": status,
        "message": message,
        "deployed_app_config": {"name": "qwen", "import_path": "ray.serve.llm:build", "route_prefix": "/", "args": ARGUMENTS},
        "deployments": {**healthy, **{name.replace("__", ":"): value for name, value in deployments.items()}},
    }


def state(**changes: Any) -> dict:
    """A service that runs."""
    return copy.deepcopy(
        {
            "service": ray_service(),
            "pods": [pod("h", "head"), pod("w1"), pod("w2")],
            "events": [],
            "applications": {"qwen": application()},
            "log": "",
            **changes,
        }
    )


WANTED = Wanted(
    namespace="inference",
    ray_service="ray-llm",
    workers=2,
    cluster_digest=DIGEST,
    serve_digest=decisions.serve_digest({"qwen": application()}),
    model="qwen3.5-9b",
    max_model_len=4096,
    kv_backend="LIBFABRIC",
    verify="strict",
)

PROPERTIES = {
    "ClusterName": "ray-llm-multinode",
    "Namespace": "inference",
    "RayService": "ray-llm",
    "Workers": "2",
    "ClusterDigest": DIGEST,
    "ServeDigest": WANTED.serve_digest,
    "Model": "qwen3.5-9b",
    "MaxModelLen": "4096",
    "KvBackend": "LIBFABRIC",
    "Verify": "strict",
}
