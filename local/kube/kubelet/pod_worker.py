"""Carries out one pod of one node."""

from __future__ import annotations

import contextlib
import logging
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.kube.api_client import ApiClient, ApiError
from local.kube.kubelet import cluster_dns, pod_environment, pod_status
from local.kube.kubelet.clock import now
from local.kube.kubelet.container import Container
from local.kube.kubelet.container_process import ContainerProcess, StartError
from local.kube.kubelet.event_recorder import EventRecorder
from local.kube.kubelet.image import Image
from local.kube.kubelet.image_catalogue import ImageCatalogue, ImageError
from local.kube.kubelet.node_hardware import NodeHardware
from local.kube.kubelet.pod_environment import EnvironmentRefused
from local.kube.kubelet.pod_network import PodNetwork, PodSandbox
from local.kube.kubelet.pod_volumes import PodVolumes, VolumeError, contents

_log = logging.getLogger("node-agent")
_TICK_SECONDS = 0.25
_RETRY_SECONDS = 2.0
_IMAGE_RETRY_SECONDS = 10.0
_REFRESH_SECONDS = 30.0
_INIT_NICENESS = 10


@dataclass(slots=True, kw_only=True)
class PodWorker:
    """From `start` until the pod has ended or is gone: containers in order, probes, restarts, status, deletion.

    `pod` is the latest version of the object, set by `update`. `abandon` ends the processes and reports nothing, as when
    the node is lost.
    """

    api: ApiClient
    pod: Mapping[str, Any]
    node_address: str
    hardware: NodeHardware
    network: PodNetwork
    images: ImageCatalogue
    events: EventRecorder
    services: Callable[[], Iterable[Mapping[str, Any]]]
    folder: Path
    containers: list[Container] = field(default_factory=list, init=False)
    _sandbox: PodSandbox | None = field(default=None, init=False)
    _volumes: PodVolumes = field(init=False)
    _mounts: dict[str, Path] = field(default_factory=dict, init=False)
    _wake: threading.Event = field(default_factory=threading.Event, init=False)
    _abandoned: bool = field(default=False, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _sent: dict[str, Any] = field(default_factory=dict, init=False)
    _started_at: str = field(default_factory=now, init=False)
    _is_set_up: bool = field(default=False, init=False)
    _next_setup: float = field(default=0.0, init=False)
    _next_refresh: float = field(default=0.0, init=False)
    _deadline: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._volumes = PodVolumes(api=self.api, hardware=self.hardware, folder=self.folder / "volumes")
        specification = self.pod["spec"]
        for container in specification.get("initContainers", []):
            role = "sidecar" if container.get("restartPolicy") == "Always" else "init"
            self._add(container, role)
        for container in specification["containers"]:
            self._add(container, "main")

    def start(self) -> None:
        """Returns at once."""
        threading.Thread(target=self._work, daemon=True, name=f"pod {self.pod['metadata']['name']}").start()

    def update(self, pod: Mapping[str, Any]) -> None:
        """The object has changed: it may be about to be deleted."""
        self.pod = pod
        self._wake.set()

    def abandon(self) -> None:
        """Returns when no process of the pod is left."""
        self._abandoned = True
        self._wake.set()
        self._ended.wait()

    @property
    def address(self) -> str:
        """The pod's own; empty until it has one."""
        return self._sandbox.address if self._sandbox else ""

    def log(self, container: str, *, previous: bool) -> Path | None:
        """A container's output; None where there is no such container or no such start."""
        found = next((candidate for candidate in self.containers if candidate.name == container), None)
        path = found.log(previous=previous) if found else None
        return path if path and path.exists() else None

    def _add(self, specification: Mapping[str, Any], role: str) -> None:
        made = Container(specification=specification, role=role, folder=self.folder, wake=self._wake.set)
        if role == "main" and not self.pod["spec"].get("initContainers"):
            made.wait("ContainerCreating")
        self.containers.append(made)

    def _work(self) -> None:
        try:
            while not self._abandoned:
                if "deletionTimestamp" in self.pod["metadata"]:
                    if self._terminate():
                        return
                elif self._done():
                    self._finish()
                    self._report()
                else:
                    self._advance()
                    self._report()
                self._wake.wait(_TICK_SECONDS)
                self._wake.clear()
        except Exception:
            _log.exception("pod %s", self.pod["metadata"]["name"])
        finally:
            self._finish()
            shutil.rmtree(self.folder / "volumes", ignore_errors=True)
            self._ended.set()

    # --- life ---------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        for container in self.containers:
            if container.poll():
                self._ended_by_itself(container)
            if container.unhealthy and container.running and not container.stopping:
                self._restart_unhealthy(container)
        if not self._set_up():
            return
        if time.monotonic() >= self._next_refresh:
            self._next_refresh = time.monotonic() + _REFRESH_SECONDS
            with contextlib.suppress(VolumeError):
                self._volumes.refresh()
        main_begun = any(c.role == "main" and (c.running or c.restarts or c.exit_code is not None) for c in self.containers)
        for container in self.containers:
            if container.role == "main" and not (main_begun or pod_status.initialized(self.containers)):
                return
            if container.role == "init" and main_begun:
                continue
            self._start_if_due(container)
            if container.role == "init" and container.exit_code != 0:
                return
            if container.role == "sidecar" and not container.started:
                return

    def _set_up(self) -> bool:
        if self._is_set_up:
            return True
        if time.monotonic() < self._next_setup:
            return False
        self._next_setup = time.monotonic() + _RETRY_SECONDS
        specification = self.pod["spec"]
        try:
            self._mounts = self._volumes.mount(self.pod)
            if not self._sandbox:
                self._sandbox = self.network.open(
                    hostname=specification.get("hostname") or self.pod["metadata"]["name"][:63],
                    log=self.folder / "sandbox.log",
                    host_address=self.node_address if specification.get("hostNetwork") else None,
                )
        except VolumeError as error:
            self.events.record(self.pod, "FailedMount", str(error), warning=True)
            return False
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", b"") or b""
            self.events.record(self.pod, "FailedCreatePodSandBox", f"{error} {said.decode(errors='replace')}", warning=True)
            return False
        self._is_set_up = True
        return True

    def _start_if_due(self, container: Container) -> None:
        if container.running or time.monotonic() < container.retry_at:
            return
        if container.exit_code is not None and not self._restarts(container):
            return
        reference = container.specification["image"]
        try:
            image = self.images.find(reference)
        except ImageError as error:
            first = container.state.get("waiting", {}).get("reason") not in ("ErrImagePull", "ImagePullBackOff")
            reason = "ErrImagePull" if first else "ImagePullBackOff"
            said = str(error) if first else f'Back-off pulling image "{reference}": ErrImagePull: {error}'
            container.wait(reason, said)
            container.retry_at = time.monotonic() + (_RETRY_SECONDS if first else _IMAGE_RETRY_SECONDS)
            if first:
                self.events.record(self.pod, "Failed", f'Failed to pull image "{reference}": {error}', warning=True)
            else:
                self.events.record(self.pod, "BackOff", f'Back-off pulling image "{reference}"')
            return
        try:
            process = self._process(container, image)
        except EnvironmentRefused as error:
            container.wait("CreateContainerConfigError", str(error))
            container.retry_at = time.monotonic() + _RETRY_SECONDS
            self.events.record(self.pod, "Failed", f"Error: {error}", warning=True)
            return
        except StartError as error:
            container.fail("StartError", f"failed to create containerd task: {error}")
            self.events.record(self.pod, "Failed", f"Error: {error}", warning=True)
            self._ended_by_itself(container)
            return
        container.begin(process, address=self.address)
        self.events.record(self.pod, "Started", f"Started container {container.name}")

    def _ended_by_itself(self, container: Container) -> None:
        if self._restarts(container):
            seconds = container.back_off()
            if seconds:
                container.crash_loop(seconds, self._full_name())
                said = f"Back-off restarting failed container {container.name} in pod {self._full_name()}"
                self.events.record(self.pod, "BackOff", said, warning=True)
        self._wake.set()

    def _restart_unhealthy(self, container: Container) -> None:
        self.events.record(self.pod, "Unhealthy", container.unhealthy, warning=True)
        self.events.record(self.pod, "Killing", f"Container {container.name} failed {container.unhealthy.split()[0].lower()} probe")
        container.stop(grace_s=float(self.pod["spec"].get("terminationGracePeriodSeconds", 30)))

    def _restarts(self, container: Container) -> bool:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        if container.role == "sidecar":
            return True
        if container.role == "init":
            return container.exit_code != 0 and policy != "Never"
        return policy == "Always" or (policy == "OnFailure" and container.exit_code != 0)

    def _done(self) -> bool:
        return self._phase() in ("Succeeded", "Failed")

    def _terminate(self) -> bool:
        """Whether the pod is gone. Sidecars end after the others."""
        grace = float(self.pod["metadata"].get("deletionGracePeriodSeconds", 30))
        if not self._deadline:
            self._deadline = time.monotonic() + grace
            for container in self.containers:
                if container.running:
                    self.events.record(self.pod, "Killing", f"Stopping container {container.name}")
        left = max(0.0, self._deadline - time.monotonic())
        others = [container for container in self.containers if container.role != "sidecar"]
        for group in (others, [container for container in self.containers if container.role == "sidecar"]):
            for container in group:
                container.poll()
                container.stop(grace_s=left)
            if any(container.running for container in group):
                self._report()
                return False
        self._finish()
        self._report()
        try:
            self.api.delete(f"{self._path()}?gracePeriodSeconds=0")
        except ApiError as error:
            _log.info("deleting %s: %s", self._full_name(), error)
            return False
        return True

    def _finish(self) -> None:
        for container in self.containers:
            container.kill()
        if self._sandbox:
            self._sandbox.close()
            self._sandbox = None
        self._volumes.unmount()

    # --- one container --------------------------------------------------------------------------------------------------

    def _process(self, container: Container, image: Image) -> ContainerProcess:
        """Started. Raises EnvironmentRefused, StartError."""
        assert self._sandbox
        specification = container.specification
        security = {**self.pod["spec"].get("securityContext", {}), **specification.get("securityContext", {})}
        if security.get("runAsNonRoot") and not security.get("runAsUser", image.user):
            raise EnvironmentRefused("container has runAsNonRoot and image will run as root")
        seen = dict(self.pod)
        seen["status"] = {**self.pod.get("status", {}), "podIP": self.address, "hostIP": self.node_address}
        own = pod_environment.environment(specification, seen, services=self.services(), lookup=self._lookup)
        variables = {"HOME": "/root", "HOSTNAME": self.pod["metadata"]["name"], **image.environment, **own}
        gpus = specification.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", "0")
        if image.reads_accelerator and int(gpus) and self.hardware.accelerator_type:
            variables["RAY_OVERRIDE_RESOURCES"] = f'{{"accelerator_type:{self.hardware.accelerator_type}": 1}}'
        command = [*(specification.get("command") or image.entrypoint)]
        if "command" in specification or "args" in specification or image.entrypoint:
            command += specification.get("args", [])
        if not command:
            raise EnvironmentRefused("no command specified")
        process = ContainerProcess(log=container.next_log(), environment=variables)
        process.start(
            {
                "pod": self._sandbox.pid,
                "root": str(self._folder("root")),
                "directory": specification.get("workingDir", "/"),
                "command": [pod_environment.expand(word, variables) for word in command],
                "programs": [str(path) for path in image.programs],
                "volumes": [*self._files(image), *self._volume_mounts(specification, variables)],
                "infiniband": str(self.hardware.infiniband),
                # Those that wait for others ask again and again, and would take the few cores from what they wait for.
                "nice": _INIT_NICENESS if container.role == "init" else 0,
            }
        )
        return process

    def _files(self, image: Image) -> list[dict[str, Any]]:
        etc = self._folder("etc")
        specification, metadata = self.pod["spec"], self.pod["metadata"]
        (etc / "hosts").write_text(f"127.0.0.1\tlocalhost\n{self.address}\t{metadata['name']}\n")
        domain = cluster_dns.DOMAIN
        search = f"{metadata['namespace']}.svc.{domain} svc.{domain} {domain}"
        cluster = specification.get("dnsPolicy", "ClusterFirst") == "ClusterFirstWithHostNet" or not specification.get(
            "hostNetwork"
        )
        server = cluster_dns.ADDRESS if cluster else "127.0.0.1"
        (etc / "resolv.conf").write_text(f"search {search}\nnameserver {server}\noptions ndots:5\n")
        (etc / "hostname").write_text(f"{metadata['name']}\n")
        files = {**{f"/etc/{path.name}": path for path in etc.iterdir()}, **image.files}
        folders = {place: self.hardware.host_path(path) for place, path in image.node_folders.items()}
        return [
            *({"source": str(path), "target": place, "read_only": True} for place, path in files.items()),
            *({"source": str(path), "target": place, "read_only": False} for place, path in folders.items()),
        ]

    def _volume_mounts(self, specification: Mapping[str, Any], variables: Mapping[str, str]) -> list[dict[str, Any]]:
        found = []
        for mount in specification.get("volumeMounts", []):
            source = self._mounts[mount["name"]]
            part = mount.get("subPath") or pod_environment.expand(mount.get("subPathExpr", ""), variables)
            if part:
                source = source / part
                if not source.exists():
                    source.mkdir(parents=True)
            found.append({"source": str(source), "target": mount["mountPath"], "read_only": mount.get("readOnly", False)})
        return found

    def _lookup(self, kind: str, name: str) -> Mapping[str, str] | None:
        resource = {"ConfigMap": "configmaps", "Secret": "secrets"}[kind]
        try:
            item = self.api.get(f"/api/v1/namespaces/{self.pod['metadata']['namespace']}/{resource}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise EnvironmentRefused(str(error)) from None
        return {key: value.decode(errors="replace") for key, value in contents(item).items()}

    def _folder(self, name: str) -> Path:
        made = self.folder / name
        made.mkdir(exist_ok=True)
        return made

    # --- status ---------------------------------------------------------------------------------------------------------

    def _phase(self) -> str:
        return pod_status.phase(self.containers, restart_policy=self.pod["spec"].get("restartPolicy", "Always"))

    def _report(self) -> None:
        status = self._status()
        if status == self._sent:
            return
        try:
            self.api.patch(f"{self._path()}/status", {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": status})
            self._sent = status
        except ApiError as error:
            # Gone, or another pod of the same name: the informer tells. Anything else is tried again.
            _log.info("status of %s: %s", self._full_name(), error)

    def _status(self) -> dict[str, Any]:
        phase = self._phase()
        done = phase in ("Succeeded", "Failed")
        previous = [*self._sent.get("conditions", []), *self.pod.get("status", {}).get("conditions", [])]
        status: dict[str, Any] = {
            "phase": phase,
            "hostIP": self.node_address,
            "hostIPs": [{"ip": self.node_address}],
            "startTime": self._started_at,
            "conditions": pod_status.conditions(
                self.containers,
                previous=previous,
                done=done,
                network=self._sandbox is not None,
                gates=[gate["conditionType"] for gate in self.pod["spec"].get("readinessGates", [])],
            ),
            "containerStatuses": self._container_statuses("main"),
        }
        if self.pod["spec"].get("initContainers"):
            status["initContainerStatuses"] = self._container_statuses("init", "sidecar")
        if self.address:
            status |= {"podIP": self.address, "podIPs": [{"ip": self.address}]}
        return status

    def _container_statuses(self, *roles: str) -> list[dict[str, Any]]:
        found = []
        for container in self.containers:
            if container.role in roles:
                made = container.status(image=container.specification["image"])
                # A patch merges maps: what a state is not any more is named and empty.
                made["state"] = {**dict.fromkeys(("waiting", "running", "terminated")), **made["state"]}
                found.append(made)
        return found

    def _path(self) -> str:
        metadata = self.pod["metadata"]
        return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"

    def _full_name(self) -> str:
        return f"{self.pod['metadata']['name']}_{self.pod['metadata']['namespace']}({self.pod['metadata']['uid']})"
