"""Events about pods, as the kubelet writes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from local.kube.api_client import ApiClient, ApiError
from local.kube.kubelet.clock import now

_log = logging.getLogger("node-agent")


@dataclass(slots=True, kw_only=True)
class EventRecorder:
    """Of one node. An event that comes again raises the count of the first; an event that is lost is only logged."""

    api: ApiClient
    node: str
    _known: dict[tuple[str, str, str], tuple[str, int]] = field(default_factory=dict, init=False)

    def record(self, pod: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Write or count it."""
        metadata = pod["metadata"]
        key = (metadata["uid"], reason, message)
        path = f"/api/v1/namespaces/{metadata['namespace']}/events"
        try:
            if key in self._known:
                name, count = self._known[key]
                self.api.patch(f"{path}/{name}", {"count": count + 1, "lastTimestamp": now()})
                self._known[key] = (name, count + 1)
                return
            event = {
                "metadata": {"generateName": f"{metadata['name'][:200]}.", "namespace": metadata["namespace"]},
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "namespace": metadata["namespace"],
                    "uid": metadata["uid"],
                },
                "reason": reason,
                "message": message[:1000],
                "type": "Warning" if warning else "Normal",
                "source": {"component": "kubelet", "host": self.node},
                "firstTimestamp": now(),
                "lastTimestamp": now(),
                "count": 1,
            }
            self._known[key] = (self.api.create(path, event)["metadata"]["name"], 1)
        except ApiError as error:
            # A namespace that is being deleted takes no events.
            _log.info("event %s of %s: %s", reason, metadata["name"], error)
