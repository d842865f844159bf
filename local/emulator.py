"""Starts and stops the local AWS emulator, and cleans up after a run that was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from local.kube.client_caches import client_caches
from local.kube.real_kube import RealKube, free_port
from local.kube.sandbox import GATEWAY, sandboxed

ROOT = Path(__file__).resolve().parent.parent
STAND_INS = ROOT / "local" / "bin"
ACCOUNT = "123456789012"
START_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """One emulator with its own folder, port and state; a context manager.

    Entering it removes whatever an earlier run in the same folder left (processes, state) and starts fresh. It raises
    RuntimeError when that earlier run is still alive, or when the emulator does not answer in time.
    `kube` says what is behind an EKS cluster: `recorded`, stand-ins that record what the handlers ask of kubectl, helm
    and the API server; `real`, an API server with scheduler and controllers, the kubectl and helm of the Lambda layer
    and a Helm repository of its own, and inside local/kube/sandbox.py a node agent that carries out its pods. It raises
    BinariesMissing where those are not there.
    """

    name: str = "demo"
    region: str = "sa-east-1"
    account: str = ACCOUNT
    kube: Literal["recorded", "real"] = "recorded"
    _real_kube: list[RealKube] = field(default_factory=list, init=False, repr=False, compare=False)
    _lock: list[IO[str]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def folder(self) -> Path:
        """Everything that the run writes; the name is stable, so that the next run finds it."""
        user, where = os.getuid(), str(ROOT).strip("/").replace("/", "-")
        return Path(tempfile.gettempdir()) / f"ray-serve-local-{user}-{where}-{self.name}"

    @property
    def offerings_file(self) -> Path:
        """Zones per instance type, see InstanceOfferings."""
        return self.folder / "offerings.json"

    @property
    def facts_file(self) -> Path:
        """Limits, types and images, see AccountFacts."""
        return self.folder / "facts.json"

    @property
    def kube_state(self) -> Path:
        """Where the stand-ins of kubectl and helm keep their log and what they were given."""
        return self.folder / "kube"

    def admin_kubeconfig(self, cluster: str) -> Path:
        """An administrator's credentials for a real cluster, while it runs."""
        return self.folder / "clusters" / cluster / "admin.kubeconfig"

    @property
    def kube_client(self) -> tuple[Path, Path]:
        """The folder of kubectl and helm, and a kubeconfig for the cluster: an administrator's, or the last handler's."""
        if self.kube == "recorded":
            return STAND_INS, self.folder / "tmp" / "kubeconfig"
        (kubeconfig,) = self.folder.glob("clusters/*/admin.kubeconfig")
        return self.folder / "bin", kubeconfig

    @property
    def chart_origins(self) -> Mapping[str, str]:
        """Where each chart of the real cluster's Helm repository comes from; none of a recorded one."""
        return self._real_kube[0].charts.origins if self._real_kube else {}

    @property
    def log_file(self) -> Path:
        """Output of the emulator and of every handler."""
        return self.folder / "emulator.log"

    @property
    def endpoint(self) -> str:
        """The AWS endpoint; only while the emulator runs."""
        return f"http://127.0.0.1:{(self.folder / 'port').read_text()}"

    @property
    def environment(self) -> Mapping[str, str]:
        """What an AWS client, kubectl and helm need; nothing of the caller's AWS configuration comes through."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "CDK_"))}
        return {
            **inherited,
            # A setting of the application, so the CDK CLI takes it up.
            **({"CHART_REPOSITORY": self._real_kube[0].charts.url} if self._real_kube else {}),
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.account,
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "LOCAL_KUBE_STATE": str(self.kube_state),
            **client_caches(self.folder / "home"),
            "LOCAL_PYTHON": sys.executable,
        }

    def __enter__(self) -> Emulator:
        self._take_lock()
        self._remove_earlier_run()
        self.kube_state.mkdir(parents=True)
        (self.folder / "tmp").mkdir()
        port = str(free_port())
        (self.folder / "port").write_text(port)
        path, kube_environment = [str(STAND_INS)], {}
        if self.kube == "real":
            addresses = (GATEWAY,) if sandboxed() else ()
            self._real_kube.append(RealKube(folder=self.folder, addresses=addresses))
            path, kube_environment = self._real_kube[0].start(stand_ins=STAND_INS)
        with self.log_file.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "local.emulator_process"],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={
                    **self.environment,
                    "BIND_HOST": "127.0.0.1",
                    "GATEWAY_PORT": port,
                    "MINISTACK_HOST": "127.0.0.1",
                    "MINISTACK_REGION": self.region,
                    "MINISTACK_ACCOUNT_ID": self.account,
                    "PYTHONPATH": str(ROOT),
                    "NODE_PATH": str(ROOT / "local" / "lambda_node"),
                    "LAMBDA_STRICT": "0",
                    "AUTH": "true",  # IAM: every call is signed and held against the caller's policies
                    "LAMBDA_EXECUTOR": "local",
                    "LOCAL_OFFERINGS": str(self.offerings_file),
                    "LOCAL_FACTS": str(self.facts_file),
                    "STATE_DIR": str(self.folder / "state"),
                    "S3_DATA_DIR": str(self.folder / "s3"),
                    "TMPDIR": str(self.folder / "tmp"),
                    "TEST_OUTDIR": str(self.folder / "tmp"),
                    **kube_environment,
                    "PATH": os.pathsep.join([*path, str(Path(sys.executable).parent), os.environ["PATH"]]),
                },
            )
        (self.folder / "pid").write_text(str(process.pid))
        self._wait(process)
        return self

    def __exit__(self, *_: object) -> None:
        self._kill(int((self.folder / "pid").read_text()))
        (self.folder / "pid").unlink()
        if self._real_kube:
            self._real_kube.pop().stop()
        for entry in self.folder.iterdir():  # hundreds of megabytes of unpacked layers and assets
            if entry.is_dir() and entry != self.kube_state:
                shutil.rmtree(entry, ignore_errors=True)
        self._lock.pop().close()

    def _take_lock(self) -> None:
        """Hold the folder for as long as this process lives: the kernel lets go of it however the process ends."""
        lock = self.folder.with_name(f"{self.folder.name}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise RuntimeError(f"another run is in progress in {self.folder}") from None
        self._lock.append(lock)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=1):
                    return
            except OSError:
                if process.poll() is not None:
                    break
                time.sleep(0.1)
        self._kill(process.pid)
        if self._real_kube:
            self._real_kube.pop().stop()
        raise RuntimeError(f"the emulator did not start:\n{self.log_file.read_text()[-2000:]}")

    def _remove_earlier_run(self) -> None:
        pid = self.folder / "pid"
        if pid.exists():
            self._kill(int(pid.read_text()))
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _kill(emulator: int) -> None:
        """End the emulator's process group, handlers included, unless the id now belongs to something else."""
        if not any("local.emulator_process" in command for command in living(group=emulator)):
            return
        os.killpg(emulator, signal.SIGKILL)
        while living(group=emulator):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(emulator, os.WNOHANG)
            time.sleep(0.05)


def living(*, group: int) -> list[str]:
    """Command lines of a process group's members, those that wait to be reaped left out."""
    if not Path("/proc/self/stat").exists():
        answer = subprocess.run(["ps", "-A", "-o", "pgid=,stat=,command="], capture_output=True, text=True, check=True)
        rows = [line.split(None, 2) for line in answer.stdout.splitlines()]
        return [command for of, state, command in rows if of == str(group) and not state.startswith("Z")]
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if of == str(group) and state not in "ZX":
                found.append((entry / "cmdline").read_text().replace("\0", " "))
    return found
