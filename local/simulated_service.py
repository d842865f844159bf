"""What a RayService that kubectl's stand-in recorded would look like once KubeRay and Ray had worked on it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

FAULTS = ("refused", "image", "pending", "crash", "deploy_failed", "one_node", "ucx", "flat")
_BYTES_PER_CHAT = 17_301_504
_UID = "00000000-0000-4000-8000-000000000001"


@dataclass(slots=True, kw_only=True)
class SimulatedService:
    """Pods, applications, counters and answers of one RayService.

    Like KubeRay with upgrade strategy None: pods keep the template that they were made from until their Ray cluster is
    deleted, whatever the RayService says later. `fault` is one of FAULTS, or "" for a service that works.
    """

    generation: int = 0
    made_from: dict[str, Any] = field(default_factory=dict)
    chats: int = 0

    def look(self, service: dict[str, Any] | None) -> None:
        """Reconcile with what the cluster holds now."""
        if service is None:
            self.made_from = {}
        elif not self.made_from:
            self.generation += 1
            self.made_from = json.loads(json.dumps(service["spec"]["rayClusterConfig"]))

    def delete_ray_cluster(self) -> None:
        """KubeRay makes a new one at the next look."""
        self.made_from = {}

    def ray_service(self, service: dict[str, Any], fault: str) -> dict[str, Any]:
        """The RayService with what the API server and KubeRay add to it."""
        metadata = {**service["metadata"], "uid": _UID, "creationTimestamp": "2026-01-01T00:00:00Z"}
        return {**service, "metadata": metadata, "status": {} if fault == "refused" else {"serviceStatus": "Running"}}

    def warnings(self, service: dict[str, Any], fault: str) -> list[dict[str, Any]]:
        """KubeRay's events of type Warning."""
        if fault != "refused":
            return []
        name = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
        said = "Spec.UpgradeStrategy.Type value Rolling is invalid, valid options are NewCluster or None"
        return [
            {
                "involvedObject": {"apiVersion": "ray.io/v1", "kind": "RayService", "uid": _UID},
                "type": "Warning",
                "reason": "InvalidRayServiceSpec",
                "message": f"The RayService spec is invalid {name}: {said}",
                "lastTimestamp": "2026-01-01T00:00:01Z",
            }
        ]

    def pods(self, service: dict[str, Any], fault: str) -> list[dict[str, Any]]:
        """Head and workers; none of a RayService that KubeRay refuses."""
        if not self.made_from or fault == "refused":
            return []
        groups = [("head", self.made_from["headGroupSpec"], 1)]
        groups += [("worker", group, group["replicas"]) for group in self.made_from["workerGroupSpecs"]]
        cluster = f"{service['metadata']['name']}-{self.generation}"
        found: list[dict[str, Any]] = []
        for node_type, group, count in groups:
            for _ in range(count):
                number = len(found) + 1
                name = f"{cluster}-{group.get('groupName', 'head')}-{number}"
                pod = {
                    "metadata": {
                        "name": name,
                        "creationTimestamp": "2026-01-01T00:00:00Z",
                        "labels": {"ray.io/cluster": cluster, "ray.io/node-type": node_type},
                        "annotations": group["template"].get("metadata", {}).get("annotations", {}),
                    },
                    "spec": {"nodeName": f"ip-10-0-0-{2 if fault == 'one_node' and number > 1 else number}.ec2.internal"},
                    "status": {"phase": "Running", "podIP": f"10.0.1.{number}"},
                }
                _break(pod, fault if node_type == "worker" else "", image=group["template"]["spec"]["containers"][0]["image"])
                found.append(pod)
        return found

    def applications(self, service: dict[str, Any], fault: str) -> dict[str, Any]:
        """Ray's report about the submitted configuration."""
        found = {}
        workers = [pod for pod in self.pods(service, fault) if "worker" in pod["metadata"]["labels"].values()]
        places = {
            phase: [
                {"replica_id": pod["metadata"]["name"], "state": "RUNNING", "node_ip": pod["status"]["podIP"]}
                for pod in workers
                if f"-{phase.lower()}-" in pod["metadata"]["name"]
            ]
            for phase in ("Prefill", "Decode")
        }
        for submitted in json.loads(service["spec"]["serveConfigV2"])["applications"]:
            failed = fault == "deploy_failed"
            found[submitted["name"]] = {
                "status": "DEPLOY_FAILED" if failed else "RUNNING",
                "message": "Deploying app failed with exception: RuntimeError: no engine" if failed else "",
                "deployed_app_config": submitted,
                "deployments": {
                    f"{phase}:model": {"status": "HEALTHY", "message": "", "replicas": replicas}
                    for phase, replicas in places.items()
                },
            }
        return found

    def report(self, service: dict[str, Any], fault: str) -> dict[str, Any]:
        """What the container beside the worker answers."""
        side = json.loads(service["spec"]["serveConfigV2"])["applications"][0]["args"]["prefill_config"]
        asked = side["engine_kwargs"]["kv_transfer_config"]["kv_connector_extra_config"]["backends"]
        sent = 0 if fault == "flat" else self.chats * _BYTES_PER_CHAT
        return {"efa_tx_bytes": {"rdmap0s6": sent}, "nixl_backends": ["UCX"] if fault == "ucx" else asked}

    def metrics(self) -> str:
        """NIXL's part of a metrics page."""
        return f'ray_vllm_nixl_bytes_transferred_count{{model_name="model"}} {self.chats}\n'

    def chat(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Events of a streamed answer: the same words for the same prompt."""
        self.chats += 1
        words = hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()
        return [{"choices": [{"delta": {"content": part}}]} for part in (words[:8], words[8:16])]


def _break(pod: dict[str, Any], fault: str, *, image: str) -> None:
    if fault == "image":
        message = f'failed to resolve reference "{image}": {image}: not found'
        pod["status"] |= {"phase": "Pending", "containerStatuses": [_waiting("ErrImagePull", message, image=image)]}
    elif fault == "crash":
        message = f"back-off 1m20s restarting failed container=ray-worker pod={pod['metadata']['name']}"
        pod["status"]["containerStatuses"] = [_waiting("CrashLoopBackOff", message, image=image, restartCount=5)]
    elif fault == "pending":
        reason = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient vpc.amazonaws.com/efa."
        since = datetime.fromtimestamp(datetime.now(UTC).timestamp() - 600, UTC).isoformat()
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": reason}
        pod["status"] |= {"phase": "Pending", "conditions": [{**condition, "lastTransitionTime": since}]}


def _waiting(reason: str, message: str, *, image: str, **more: Any) -> dict[str, Any]:
    return {"name": "ray-worker", "image": image, "state": {"waiting": {"reason": reason, "message": message}}, **more}
