"""One container of a pod: what it is doing, how often it has been started, what it did before."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.kube.kubelet.clock import now
from local.kube.kubelet.container_process import ContainerProcess
from local.kube.kubelet.probe import Probe

# The kubelet's: the first restart at once, then 10 s, doubled up to 5 minutes, forgotten after 10 minutes of running.
_BACK_OFF_SECONDS, _LONGEST_BACK_OFF_SECONDS, _FORGIVEN_AFTER_SECONDS = 10.0, 300.0, 600.0


@dataclass(slots=True, kw_only=True)
class Container:
    """`role` is "init", "sidecar" (an init container that always restarts) or "main"."""

    specification: Mapping[str, Any]
    role: str
    folder: Path
    wake: Callable[[], None]
    process: ContainerProcess | None = field(default=None, init=False)
    ready: bool = field(default=False, init=False)
    started: bool = field(default=False, init=False)
    restarts: int = field(default=0, init=False)
    unhealthy: str = field(default="", init=False)
    retry_at: float = field(default=0.0, init=False)
    state: dict[str, Any] = field(default_factory=lambda: {"waiting": {"reason": "PodInitializing"}}, init=False)
    _last: dict[str, Any] = field(default_factory=dict, init=False)
    _id: str = field(default="", init=False)
    _probes: list[Probe] = field(default_factory=list, init=False)
    _kill_at: float = field(default=0.0, init=False)
    _began: float = field(default=0.0, init=False)
    _back_off: float = field(default=0.0, init=False)

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return self.specification["name"]

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """Of a container that has ended and not been started again."""
        return self.state["terminated"]["exitCode"] if "terminated" in self.state else None

    def log(self, *, previous: bool = False) -> Path:
        """The output of this or the previous start."""
        return self.folder / f"{self.name}-{self.restarts - previous}.log"

    def next_log(self) -> Path:
        """Where the next start is to write."""
        number = self.restarts + bool(self._id)
        return self.folder / f"{self.name}-{number}.log"

    def begin(self, process: ContainerProcess, *, address: str) -> None:
        """Its process has been started."""
        self.restarts += bool(self._id)
        self.process, self._id = process, f"local://{uuid.uuid4().hex}"
        self.state, self._began = {"running": {"startedAt": now()}}, time.monotonic()
        self.started = "startupProbe" not in self.specification
        self.ready = self.started and "readinessProbe" not in self.specification
        self.unhealthy, self._kill_at = "", 0.0
        ports = {port["name"]: port["containerPort"] for port in self.specification.get("ports", []) if "name" in port}
        if "startupProbe" in self.specification:
            self._probe("startupProbe", process, address, ports, passed=lambda: self._has_started(process, address, ports))
        else:
            self._probe_health(process, address, ports)

    def wait(self, reason: str, message: str = "") -> None:
        """It cannot be started yet."""
        self.state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}

    def fail(self, reason: str, message: str) -> None:
        """It could not be started: as if it had ended at once, with the status that container runtimes give then."""
        self.restarts += bool(self._id)
        self._id, self._began = f"local://{uuid.uuid4().hex}", time.monotonic()
        self._end(128, reason, message, started=now())

    def poll(self) -> bool:
        """Whether it has ended since the last call."""
        if not self.running or self.process is None:
            return False
        code = self.process.exit_code()
        if code is None:
            if self._kill_at and time.monotonic() >= self._kill_at:
                self.process.signal(signal.SIGKILL)
            return False
        self.process.close()
        self._end(code, "Completed" if code == 0 else "Error", "", started=self.state["running"]["startedAt"])
        return True

    def stop(self, *, grace_s: float) -> None:
        """SIGTERM now, SIGKILL after the grace; `poll` tells when it has ended."""
        if self.running and self.process and not self._kill_at:
            self._stop_probes()
            self.process.signal(signal.SIGTERM if grace_s > 0 else signal.SIGKILL)
            self._kill_at = time.monotonic() + grace_s

    @property
    def stopping(self) -> bool:
        """Whether it has been told to stop."""
        return bool(self._kill_at)

    def kill(self) -> None:
        """Returns when it has ended."""
        self._stop_probes()
        if self.process and self.process.exit_code() is None:
            self.process.kill()
        self.poll()

    def back_off(self) -> float:
        """Seconds until the next start; the waiting state says so where it is not at once."""
        if time.monotonic() - self._began > _FORGIVEN_AFTER_SECONDS:
            self._back_off = 0.0
        seconds, self._back_off = self._back_off, min(max(self._back_off * 2, _BACK_OFF_SECONDS), _LONGEST_BACK_OFF_SECONDS)
        self.retry_at = time.monotonic() + seconds
        return seconds

    def status(self, *, image: str) -> dict[str, Any]:
        """containerStatuses' entry."""
        return {
            "name": self.name,
            "image": image,
            "imageID": image if self._id else "",
            **({"containerID": self._id} if self._id else {}),
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self._last,
        }

    def crash_loop(self, seconds: float, pod: str) -> None:
        """It waits for its next start, and what it did before is its last state."""
        self.wait("CrashLoopBackOff", f"back-off {seconds:.0f}s restarting failed container={self.name} pod={pod}")

    def _end(self, code: int, reason: str, message: str, *, started: str) -> None:
        self._stop_probes()
        ended = {
            "exitCode": code,
            "reason": reason,
            "startedAt": started,
            "finishedAt": now(),
            "containerID": self._id,
            **({"message": message} if message else {}),
        }
        self.state, self._last = {"terminated": ended}, {"terminated": ended}
        self.started, self.ready = False, self.role == "init" and code == 0

    def _has_started(self, process: ContainerProcess, address: str, ports: Mapping[str, int]) -> None:
        self._stop_probes()
        self.started = True
        self.ready = "readinessProbe" not in self.specification
        self._probe_health(process, address, ports)
        self.wake()

    def _probe_health(self, process: ContainerProcess, address: str, ports: Mapping[str, int]) -> None:
        self._probe("readinessProbe", process, address, ports, passed=self._is_ready)
        self._probe("livenessProbe", process, address, ports, passed=lambda: None)

    def _is_ready(self) -> None:
        self.ready = True
        self.wake()

    def _probe(
        self, kind: str, process: ContainerProcess, address: str, ports: Mapping[str, int], *, passed: Callable[[], None]
    ) -> None:
        if kind not in self.specification:
            return

        def failed(said: str) -> None:
            if kind == "readinessProbe":
                self.ready = False
            else:
                self.unhealthy = f"{kind.removesuffix('Probe').capitalize()} probe failed: {said}"
            self.wake()

        probe = Probe(
            specification=self.specification[kind],
            process=process,
            address=address,
            ports=ports,
            passed=passed,
            failed=failed,
        )
        self._probes.append(probe)
        probe.start()

    def _stop_probes(self) -> None:
        for probe in self._probes:
            probe.stop()
        self._probes.clear()
