"""Keeps one Node object alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from local.kube.api_client import ApiClient, ApiError
from local.kube.kubelet.clock import now, now_micro
from local.kube.kubelet.kubelet_endpoint import PORT
from local.kube.kubelet.node_hardware import NodeHardware

_log = logging.getLogger("node-agent")
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_SECONDS = 40
_BEAT_SECONDS = 1.0
_RENEW_EVERY = 10


@dataclass(slots=True, kw_only=True)
class NodeKeeper:
    """From `start` until `stop`: the node is Ready, its lease is renewed, its devices are those that plugins report."""

    api: ApiClient
    node: Mapping[str, Any]
    address: str
    hardware: NodeHardware
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _devices: dict[str, int] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        """Of the node."""
        return self.node["metadata"]["name"]

    def start(self) -> None:
        """Returns at once."""
        threading.Thread(target=self._beat, daemon=True, name=f"node {self.name}").start()

    def stop(self) -> None:
        """The controller manager finds the node not ready when its lease ends."""
        self._stop.set()

    def _beat(self) -> None:
        beats, reported = 0, False
        while not self._stop.is_set():
            try:
                devices = self.hardware.devices()
                if not reported or any(self._devices.get(name) != count for name, count in devices.items()):
                    self._report(devices)
                    self._devices, reported = devices, True
                if beats % _RENEW_EVERY == 0:
                    self._renew()
                beats += 1
            except ApiError as error:
                _log.info("node %s: %s", self.name, error)
            self._stop.wait(_BEAT_SECONDS)

    def _report(self, devices: Mapping[str, int]) -> None:
        quantities = {name: str(count) for name, count in devices.items()}
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the local node agent is posting ready status",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }
        status = {
            "conditions": [condition],
            "addresses": [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": PORT}},
            "capacity": quantities,
            "allocatable": quantities,
        }
        self.api.patch(f"/api/v1/nodes/{self.name}/status", {"status": status})

    def _renew(self) -> None:
        specification = {"holderIdentity": self.name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": now_micro()}
        try:
            self.api.patch(f"{_LEASES}/{self.name}", {"spec": specification})
        except ApiError as error:
            if error.status != 404:
                raise
            metadata = self.node["metadata"]
            owner = {"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": metadata["uid"]}
            self.api.create(_LEASES, {"metadata": {"name": self.name, "ownerReferences": [owner]}, "spec": specification})
