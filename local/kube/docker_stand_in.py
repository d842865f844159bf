"""The Docker client that ministack's EKS talks to, with a real control plane in the place of its k3s container.

ministack starts a container per cluster, puts a TokenReview webhook's kubeconfig into it, reads the certificate authority
out of it and runs kubectl in it to turn access entries into RBAC. All of that is done here as asked, with processes of this
machine; only what ministack calls exists. It is private to ministack: the version in requirements-local.txt is exact.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ministack.services import eks
from ministack.services.cloudformation import provisioners

from local.kube.binaries import KubeBinaries
from local.kube.control_plane import START_TIMEOUT_SECONDS, ControlPlane, ControlPlaneError
from local.kube.node_agent_process import NodeAgentError, NodeAgentProcess
from local.kube.sandbox import sandboxed

_WEBHOOK = "etc/rancher/k3s/eks-auth-webhook.yaml"
_AUTHORITY = "server-ca.crt"


@dataclass(slots=True, kw_only=True)
class DockerStandIn:
    """One control plane per cluster, in `folder`/<cluster>; `addresses` are those that its clients use.

    Inside the sandbox a node agent carries out the cluster's pods; elsewhere they stay as the scheduler leaves them.

    After `install`, EKS makes, describes and deletes clusters with a real API server behind their endpoint, and
    CloudFormation's AWS::EKS::Cluster is complete when that answers, or fails with the reason.
    """

    binaries: KubeBinaries
    folder: Path
    addresses: tuple[str, ...]
    containers: _Containers = field(init=False)

    def __post_init__(self) -> None:
        self.containers = _Containers(self)

    def install(self) -> None:
        """Become the client of ministack's EKS; call it before ResourceRules wraps the resource types."""
        eks._get_docker = lambda: self
        handler = provisioners._RESOURCE_HANDLERS["AWS::EKS::Cluster"]
        handler["create"] = _waiting(handler["create"], self)

    def control_plane(self, cluster: str) -> ControlPlane | None:
        """Of a cluster that runs."""
        return next((found.control_plane for found in self.containers.list() if found.cluster == cluster and found.running), None)

    def failure(self, cluster: str) -> str:
        """Why the cluster's control plane did not start, if it did not."""
        return next((found.failure for found in self.containers.list() if found.cluster == cluster), "")


class _Container:
    """What `docker create` makes: a control plane that is started later."""

    def __init__(self, *, client: DockerStandIn, labels: dict[str, str], port: int) -> None:
        self.id = secrets.token_hex(16)
        self.labels, self.cluster, self.failure, self.running = labels, labels["cluster_name"], "", False
        self._client = client
        folder = client.folder / self.cluster
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._webhook = folder / "token-webhook.yaml"
        self.control_plane = ControlPlane(
            binaries=client.binaries, folder=folder, port=port, addresses=client.addresses, token_webhook=self._webhook
        )
        self._agent = NodeAgentProcess(control_plane=self.control_plane, folder=folder / "node-agent") if sandboxed() else None

    def put_archive(self, path: str, data: bytes) -> bool:
        """The one file that is for the API server; containerd's registry mirrors have no use here."""
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            webhook = archive.extractfile(_WEBHOOK)
            assert path == "/"
            assert webhook, _WEBHOOK
            self._webhook.write_text(webhook.read().decode().replace("host.docker.internal", "127.0.0.1"))
        return True

    def start(self) -> None:
        try:
            self.control_plane.start()
            if self._agent:
                self._agent.start()
        except (ControlPlaneError, NodeAgentError, OSError, subprocess.CalledProcessError) as error:
            # ministack would log it and call the cluster active.
            self.failure = str(error)
            raise
        self.running = True

    def exec_run(self, command: str | list[str]) -> tuple[int, bytes]:
        """`cat` of the certificate authority, or kubectl as the administrator."""
        if isinstance(command, str):
            assert command.endswith(_AUTHORITY), command
            return 0, self.control_plane.certificates.authority.read_bytes()
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(self._client.binaries.path("kubectl").parent), os.environ["PATH"]]),
            **self.control_plane.client_environment,
        }
        run = subprocess.run(command, env=environment, capture_output=True, check=False)
        return run.returncode, run.stderr if run.returncode else run.stdout

    def stop(self, timeout: float = 0) -> None:
        self.running = False
        if self._agent:
            self._agent.stop()
        self.control_plane.stop()

    def remove(self, **_: Any) -> None:
        self._client.containers.forget(self)


class _Containers:
    def __init__(self, client: DockerStandIn) -> None:
        self._client = client
        self._all: dict[str, _Container] = {}

    def create(self, *, labels: dict[str, str], ports: dict[str, int], **_: Any) -> _Container:
        made = _Container(client=self._client, labels=labels, port=ports["6443/tcp"])
        self._all[made.id] = made
        return made

    def get(self, id: str) -> _Container:
        if id not in self._all:
            raise LookupError(f"No such container: {id}")
        return self._all[id]

    def list(self, **_: Any) -> list[_Container]:
        return list(self._all.values())

    def forget(self, container: _Container) -> None:
        self._all.pop(container.id, None)


def _waiting(create: Callable[..., Any], client: DockerStandIn) -> Callable[..., Any]:
    """CloudFormation's resource is complete when the cluster is active, which takes ministack's a moment longer."""

    def created(logical_id: str, properties: dict[str, Any], stack: str) -> Any:
        name, attributes = create(logical_id, properties, stack)
        deadline = time.monotonic() + 3 * START_TIMEOUT_SECONDS
        while eks._clusters[name]["status"] == "CREATING" and time.monotonic() < deadline:
            time.sleep(0.1)
        failure = client.failure(name)
        if failure or not client.control_plane(name):
            raise ValueError(f"The control plane of {name} did not start: {failure or 'no reason given'}")
        authority = eks._clusters[name]["certificateAuthority"]["data"]
        return name, {**attributes, "CertificateAuthorityData": authority}

    return created
