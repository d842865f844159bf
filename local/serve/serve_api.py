"""The dashboard's Serve REST API, as the KubeRay operator uses it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

_PATH = "/api/serve/applications/"
_NO_PLACE = "to be scheduled"
# Ray says the same of a replica whose process is slow to start.
_NO_PLACE_S = 40


class NotRunningError(Exception):
    """The applications did not come up; the text is Ray's own message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeApi:
    """`dashboard_url` is the head's port 8265 on Kubernetes."""

    dashboard_url: str

    def deploy(self, config: Mapping[str, Any]) -> None:
        """PUT the config; Ray answers once the wish is noted, and works on it afterwards.

        Raises:
            NotRunningError: Ray refused the config.
        """
        answer = httpx.put(f"{self.dashboard_url}{_PATH}", json=config, timeout=60)
        if answer.is_error:
            raise NotRunningError(answer.text)

    def details(self) -> dict[str, Any]:
        """ServeInstanceDetails: proxies, applications, deployments, replicas."""
        answer = httpx.get(f"{self.dashboard_url}{_PATH}", timeout=30)
        answer.raise_for_status()
        return answer.json()

    def wait_running(self, *, timeout_s: float) -> dict[str, Any]:
        """Details of the moment when every application is RUNNING.

        Raises:
            NotRunningError: an application cannot be deployed, its replicas find no place, or the time is over; with
                what Ray says about each deployment that is not healthy.
        """
        deadline = time.monotonic() + timeout_s
        no_place_since: float | None = None
        while True:
            details = self.details()
            states = {name: application["status"] for name, application in details["applications"].items()}
            if states and all(state == "RUNNING" for state in states.values()):
                return details
            reasons = explain(details)
            # Ray keeps a replica that no node can take DEPLOYING for good, and says so in a message only. During a change
            # the same message is passing: the new replica waits until the old one has stopped.
            now = time.monotonic()
            no_place_since = (no_place_since or now) if _NO_PLACE in reasons and _waiting(details) else None
            hopeless = "DEPLOY_FAILED" in states.values() or (no_place_since and now - no_place_since > _NO_PLACE_S)
            if hopeless or now > deadline:
                raise NotRunningError(reasons or f"no application after {timeout_s:.0f} s")
            time.sleep(0.5)

    def url(self) -> str:
        """Where clients find the application: the proxies' HTTP port."""
        return f"http://127.0.0.1:{self.details()['http_options']['port']}"


def _waiting(details: Mapping[str, Any]) -> bool:
    """A replica is on no node, and none is about to make room. Ray's messages outlive what they tell of."""
    replicas = [
        replica
        for application in details["applications"].values()
        for deployment in application["deployments"].values()
        for replica in deployment["replicas"]
    ]
    stopping = any(replica["state"] == "STOPPING" for replica in replicas)
    return not stopping and any(not replica.get("node_id") for replica in replicas)


def explain(details: Mapping[str, Any]) -> str:
    """Ray's messages about everything that is not well, one a line."""
    lines = []
    for name, application in details["applications"].items():
        if application["status"] != "RUNNING":
            lines.append(f"{name}: {application['status']}: {application['message']}".rstrip(": "))
        for deployment in application["deployments"].values():
            if deployment["status"] != "HEALTHY":
                lines.append(f"{deployment['name']}: {deployment['status']}: {deployment['message']}".rstrip(": "))
    return "\n".join(lines)
