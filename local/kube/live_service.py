"""The RayService as it lives in the local cluster: its address, where its pods are, what is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from local.kube.api_client import ApiClient

_SYSTEM = ("default", "kube-node-lease", "kube-public", "kube-system")
# What Kubernetes puts into every namespace, and what a namespace outlives.
_EVERYWHERE = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
# Events tell of what was; a leader's lease outlives it, as everywhere.
_PASSING = ("events", "leases")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveService:
    """One RayService of one cluster, asked as the administrator."""

    api: ApiClient
    namespace: str
    name: str

    @classmethod
    def only_one(cls, api: ApiClient) -> LiveService:
        """The cluster's RayService. Raises LookupError where there is none, or several."""
        found = api.get("/apis/ray.io/v1/rayservices")["items"]
        if len(found) != 1:
            raise LookupError(f"{len(found)} RayServices, not one")
        return cls(api=api, namespace=found[0]["metadata"]["namespace"], name=found[0]["metadata"]["name"])

    def url(self) -> str:
        """Where its Service answers, inside the sandbox."""
        service = self.api.get(f"/api/v1/namespaces/{self.namespace}/services/{self.name}-serve-svc")
        return f"http://{service['spec']['clusterIP']}:8000"

    def ray_service(self) -> dict[str, Any]:
        """The object."""
        return self.api.get(f"/apis/ray.io/v1/namespaces/{self.namespace}/rayservices/{self.name}")

    def pods(self) -> list[dict[str, Any]]:
        """Of the RayService, those on their way out left out."""
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=ray.io/cluster")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def table(self) -> str:
        """Which pod runs on which node."""
        rows = [("POD", "PHASE", "RESTARTS", "ADDRESS", "NODE")]
        for pod in sorted(self.pods(), key=lambda pod: pod["metadata"]["name"]):
            status = pod["status"]
            restarts = sum(container["restartCount"] for container in status.get("containerStatuses", []))
            where = (status.get("podIP", ""), pod["spec"].get("nodeName", ""))
            rows.append((pod["metadata"]["name"], status["phase"], str(restarts), *where))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def left_in_cluster(api: ApiClient) -> set[str]:
    """Everything that is stored outside the system's namespaces, and every object of a custom resource, as kind/namespace/name."""
    found = set()
    for path, kind in _kinds(api):
        for item in api.get(path)["items"]:
            metadata = item["metadata"]
            where = metadata.get("namespace", "")
            custom = path.startswith("/apis/ray.io/")
            if (custom or (where and where not in _SYSTEM)) and (kind, metadata["name"]) not in _EVERYWHERE:
                found.add(f"{kind}/{where}/{metadata['name']}")
    return found


def _kinds(api: ApiClient) -> Iterator[tuple[str, str]]:
    """(path, kind) of everything that can be listed."""
    groups = ["/api/v1"]
    groups += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"]]
    for group in groups:
        for resource in api.get(group)["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"] and resource["name"] not in _PASSING:
                yield f"{group}/{resource['name']}", resource["kind"]
