"""A Kubernetes control plane of real parts: etcd, API server, scheduler, controller manager."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.kube.api_client import ApiClient, ApiError
from local.kube.binaries import KubeBinaries
from local.kube.certificates import Certificates
from local.kube.client_caches import client_caches

SERVICE_RANGE = "10.100.0.0/16"
_FIRST_SERVICE_ADDRESS = "10.100.0.1"
_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost")
START_TIMEOUT_SECONDS = 90.0


class ControlPlaneError(Exception):
    """A part ended or did not get ready; holds the end of its log."""


@dataclass(slots=True, kw_only=True)
class ControlPlane:
    """Starts with `start`, ends with `stop`; everything it writes is in `folder`.

    `port` is the API server's; `addresses` are those that clients use beside 127.0.0.1, and the first of them is the
    endpoint of the Service `kubernetes`. It listens on the loopback alone if no other is among them.
    `token_webhook` is a kubeconfig that names a TokenReview webhook, for tokens that the API server does not know.
    The kubeconfig of an administrator is `admin_kubeconfig`. `users` have groups, and tokens of their own.
    """

    binaries: KubeBinaries
    folder: Path
    port: int
    addresses: tuple[str, ...] = ("127.0.0.1",)
    token_webhook: Path | None = None
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _tokens: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False, repr=False)

    @property
    def certificates(self) -> Certificates:
        """Of the API server."""
        return Certificates(folder=self.folder / "pki")

    @property
    def endpoint(self) -> str:
        """The API server, from this machine."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def admin_kubeconfig(self) -> Path:
        """Credentials of system:masters."""
        return self.folder / "admin.kubeconfig"

    @property
    def api(self) -> ApiClient:
        """The API server as the administrator."""
        return ApiClient.of_kubeconfig(self.admin_kubeconfig)

    def start(self) -> None:
        """Returns when the API server is ready. Raises ControlPlaneError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        certificates = self.certificates
        certificates.make(addresses=(*self.addresses, "127.0.0.1", _FIRST_SERVICE_ADDRESS), names=_NAMES)
        token = secrets.token_hex(16)
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        rows = {"local-admin": (token, ("system:masters",))}
        rows |= {user: (secrets.token_hex(16), groups) for user, groups in self.users.items()}
        self._tokens = {user: own for user, (own, _) in rows.items()}
        tokens.write_text("".join(f'{own},{user},{user},"{",".join(groups)}"\n' for user, (own, groups) in rows.items()))
        self.admin_kubeconfig.write_text(json.dumps(_kubeconfig(self.endpoint, certificates.authority, token)))
        etcd, peer = _free_port(), _free_port()
        self._run(
            "etcd",
            *("--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--log-level=warn"),
            *(f"--listen-client-urls=http://127.0.0.1:{etcd}", f"--advertise-client-urls=http://127.0.0.1:{etcd}"),
            *(f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )
        bind = "127.0.0.1" if set(self.addresses) <= {"127.0.0.1"} else "0.0.0.0"
        webhook = []
        if self.token_webhook:
            webhook = [
                f"--authentication-token-webhook-config-file={self.token_webhook}",
                "--authentication-token-webhook-version=v1",
                # Access entries come and go within one deployment.
                "--authentication-token-webhook-cache-ttl=1s",
            ]
        self._run(
            "kube-apiserver",
            *(f"--etcd-servers=http://127.0.0.1:{etcd}", f"--secure-port={self.port}", f"--bind-address={bind}"),
            *(f"--service-cluster-ip-range={SERVICE_RANGE}", "--allow-privileged=true", "--profiling=false"),
            # Found by the default route otherwise, which a namespace without a way out does not have.
            f"--advertise-address={self.addresses[0]}",
            *("--authorization-mode=Node,RBAC", f"--token-auth-file={tokens}", *webhook),
            *(f"--tls-cert-file={certificates.certificate}", f"--tls-private-key-file={certificates.key}"),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={certificates.service_account_key}",
            f"--service-account-key-file={certificates.service_account_key}",
            "--kubelet-preferred-address-types=InternalIP",
        )
        self._wait("kube-apiserver", self._ready)
        self._run(
            "kube-controller-manager",
            *(f"--kubeconfig={self.admin_kubeconfig}", "--leader-elect=false", "--profiling=false"),
            *(f"--secure-port={_free_port()}", "--bind-address=127.0.0.1"),
            f"--root-ca-file={certificates.authority}",
            f"--service-account-private-key-file={certificates.service_account_key}",
        )
        self._run(
            "kube-scheduler",
            *(f"--kubeconfig={self.admin_kubeconfig}", "--leader-elect=false", "--profiling=false"),
            *(f"--secure-port={_free_port()}", "--bind-address=127.0.0.1"),
        )
        self._wait("kube-controller-manager", self._service_account_made)

    def token(self, user: str) -> str:
        """The bearer token of one of `users`."""
        return self._tokens[user]

    def stop(self) -> None:
        """End every part, the last started first."""
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGKILL)
            process.wait()
        self._processes.clear()

    @property
    def client_environment(self) -> Mapping[str, str]:
        """Of kubectl as the administrator, which else keeps a cache in the caller's home."""
        return {"KUBECONFIG": str(self.admin_kubeconfig), **client_caches(self.folder / "cache")}

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """kubectl as the administrator; its status is for the caller."""
        return subprocess.run(
            [self.binaries.path("kubectl"), *arguments],
            env={**os.environ, **self.client_environment},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def log(self, name: str) -> Path:
        """Output of a part."""
        return self.folder / f"{name}.log"

    def _run(self, name: str, *arguments: str | Path) -> None:
        with self.log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [self.binaries.path(name), *arguments], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not ready():
            ended = [part for part, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                part = ended[0] if ended else name
                reason = "ended" if ended else f"was not ready after {START_TIMEOUT_SECONDS:.0f} s"
                end = self.log(part).read_text(errors="replace")[-2000:]
                self.stop()
                raise ControlPlaneError(f"{part} {reason}: {end}")
            time.sleep(0.1)

    def _ready(self) -> bool:
        return self._answers("/readyz")

    def _service_account_made(self) -> bool:
        return self._answers("/api/v1/namespaces/default/serviceaccounts/default")

    def _answers(self, path: str) -> bool:
        try:
            self.api.text(path)
        except ApiError:
            return False
        return True


def _kubeconfig(server: str, authority: Path, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "admin"}}],
        "current-context": "local",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
