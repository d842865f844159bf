"""The node agent: carries out the pods of every node of a cluster on this machine, as kubelets would.

`python -m local.kube.node_agent --kubeconfig FILE --certificate FILE --key FILE --folder FOLDER`, inside
local/kube/sandbox.py. It ends with SIGTERM, and with it every process of every pod.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from local.kube.api_client import ApiClient
from local.kube.binaries import KubeBinaries
from local.kube.kubelet import cluster_dns
from local.kube.kubelet.cluster_dns import ClusterDns
from local.kube.kubelet.event_recorder import EventRecorder
from local.kube.kubelet.image_catalogue import ImageCatalogue
from local.kube.kubelet.informer import Informer
from local.kube.kubelet.kubelet_endpoint import KubeletEndpoint
from local.kube.kubelet.node_hardware import NodeHardware
from local.kube.kubelet.node_keeper import NodeKeeper
from local.kube.kubelet.pod_network import PodNetwork, add_local_address
from local.kube.kubelet.pod_worker import PodWorker
from local.kube.kubelet.service_proxy import ServiceProxy

_log = logging.getLogger("node-agent")


@dataclass(slots=True, kw_only=True)
class NodeAgent:
    """Between `start` and `stop` every Node object is a living node, and every pod bound to one is carried out.

    A node that is deleted takes its pods' processes with it. Everything that is written is in `folder`.
    """

    api: ApiClient
    images: ImageCatalogue
    folder: Path
    certificate: Path
    key: Path
    _network: PodNetwork = field(default_factory=PodNetwork, init=False)
    _proxy: ServiceProxy = field(default_factory=ServiceProxy, init=False)
    _keepers: dict[str, NodeKeeper] = field(default_factory=dict, init=False)
    _recorders: dict[str, EventRecorder] = field(default_factory=dict, init=False)
    _workers: dict[str, PodWorker] = field(default_factory=dict, init=False)
    _informers: dict[str, Informer] = field(default_factory=dict, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def start(self) -> None:
        """Returns when nodes, pods and services that exist are known."""
        add_local_address(cluster_dns.ADDRESS)
        self._proxy.start()
        ClusterDns(resolve=self._resolve).start()
        KubeletEndpoint(certificate=self.certificate, key=self.key, find_log=self._log, lives=self._lives).start()
        self._informers = {
            "slices": Informer(api=self.api, path="/apis/discovery.k8s.io/v1/endpointslices"),
            "services": Informer(api=self.api, path="/api/v1/services", changed=self._service),
            "nodes": Informer(api=self.api, path="/api/v1/nodes", changed=self._node, deleted=self._node_gone),
            "pods": Informer(api=self.api, path="/api/v1/pods", changed=self._pod, deleted=self._pod_gone),
        }
        for informer in self._informers.values():
            informer.start()

    def stop(self) -> None:
        """End every pod's processes; the objects stay as they are."""
        for informer in self._informers.values():
            informer.stop()
        for keeper in self._keepers.values():
            keeper.stop()
        for worker in list(self._workers.values()):
            worker.abandon()

    # --- nodes and pods ---------------------------------------------------------------------------------------------------

    def _node(self, node: Mapping[str, Any]) -> None:
        name = node["metadata"]["name"]
        with self._lock:
            if name in self._keepers:
                return
            address = next(entry["address"] for entry in node["status"].get("addresses", []) if entry["type"] == "InternalIP")
            add_local_address(address)
            hardware = NodeHardware.of_node(node, folder=self.folder / "nodes" / name)
            keeper = NodeKeeper(api=self.api, node=node, address=address, hardware=hardware)
            self._keepers[name], self._recorders[name] = keeper, EventRecorder(api=self.api, node=name)
            keeper.start()
        for pod in list(self._informers["pods"].objects.values()):
            self._pod(pod)

    def _node_gone(self, node: Mapping[str, Any]) -> None:
        name = node["metadata"]["name"]
        with self._lock:
            self._keepers.pop(name).stop()
            lost = [uid for uid, worker in self._workers.items() if worker.pod["spec"]["nodeName"] == name]
            workers = [self._workers.pop(uid) for uid in lost]
        for worker in workers:
            worker.abandon()
        shutil.rmtree(self.folder / "nodes" / name, ignore_errors=True)

    def _pod(self, pod: Mapping[str, Any]) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        with self._lock:
            worker = self._workers.get(uid)
            if worker:
                worker.update(pod)
                return
            keeper = self._keepers.get(node) if node else None
            ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if not keeper or (ended and "deletionTimestamp" not in pod["metadata"]):
                return
            worker = self._workers[uid] = PodWorker(
                api=self.api,
                pod=pod,
                node_address=keeper.address,
                hardware=keeper.hardware,
                network=self._network,
                images=self.images,
                events=self._recorders[keeper.name],
                services=self._services,
                folder=self.folder / "pods" / f"{pod['metadata']['namespace']}_{pod['metadata']['name']}_{uid}",
            )
            worker.start()

    def _pod_gone(self, pod: Mapping[str, Any]) -> None:
        with self._lock:
            worker = self._workers.pop(pod["metadata"]["uid"], None)
        if worker:
            worker.abandon()

    def _lives(self, namespace: str, pod: str) -> bool:
        return self._worker(namespace, pod) is not None

    def _log(self, namespace: str, pod: str, container: str, previous: bool) -> Path | None:
        worker = self._worker(namespace, pod)
        return worker.log(container, previous=previous) if worker else None

    def _worker(self, namespace: str, pod: str) -> PodWorker | None:
        with self._lock:
            workers = list(self._workers.values())
        wanted = (namespace, pod)
        return next(
            (found for found in workers if (found.pod["metadata"]["namespace"], found.pod["metadata"]["name"]) == wanted), None
        )

    # --- services -----------------------------------------------------------------------------------------------------------

    def _services(self) -> Iterable[Mapping[str, Any]]:
        return list(self._informers["services"].objects.values())

    def _service(self, service: Mapping[str, Any]) -> None:
        address = service["spec"].get("clusterIP", "None")
        if address in ("None", ""):
            return
        key = (service["metadata"]["namespace"], service["metadata"]["name"])
        for port in service["spec"].get("ports", []):
            if port.get("protocol", "TCP") == "TCP":
                find = partial(self._endpoints, *key, port=port.get("name", ""), ready=True)
                self._proxy.serve(address, port["port"], find)

    def _endpoints(self, namespace: str, service: str, *, port: str, ready: bool) -> list[tuple[str, int]]:
        found = []
        for endpoint_slice in list(self._informers["slices"].objects.values()):
            metadata = endpoint_slice["metadata"]
            labels = metadata.get("labels", {})
            if (metadata["namespace"], labels.get("kubernetes.io/service-name")) != (namespace, service):
                continue
            for entry in endpoint_slice.get("ports") or []:
                if (entry.get("name") or "") == port:
                    for endpoint in endpoint_slice.get("endpoints") or []:
                        if not ready or (endpoint.get("conditions") or {}).get("ready", True):
                            found += [(address, entry["port"]) for address in endpoint["addresses"]]
        return found

    def _resolve(self, service: str, namespace: str) -> Sequence[str] | None:
        """A cluster address, or the addresses behind a headless service; those of pods that are ready, unless it wants all."""
        known = self._informers["services"].objects.get((namespace, service))
        if not known:
            return None
        address = known["spec"].get("clusterIP", "None")
        if address not in ("None", ""):
            return [address]
        names = {port.get("name", "") for port in known["spec"].get("ports", [])} or {""}
        everyone = known["spec"].get("publishNotReadyAddresses", False)
        return sorted({host for name in names for host, _ in self._endpoints(namespace, service, port=name, ready=not everyone)})


def main() -> None:
    """Until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="local.kube.node_agent", description=__doc__)
    for name in ("kubeconfig", "certificate", "key", "folder"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    agent = NodeAgent(
        api=ApiClient.of_kubeconfig(arguments.kubeconfig),
        images=ImageCatalogue(binaries=KubeBinaries.find()),
        folder=arguments.folder,
        certificate=arguments.certificate,
        key=arguments.key,
    )
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    agent.start()
    print("ready", flush=True)
    told.wait()
    agent.stop()


if __name__ == "__main__":
    main()
