"""The node agent as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from local.kube.control_plane import ControlPlane

_STOP_SECONDS = 60.0


class NodeAgentError(Exception):
    """It did not start; holds the end of its log."""


@dataclass(slots=True, kw_only=True)
class NodeAgentProcess:
    """Carries out the pods of a cluster between `start` and `stop`, inside local/kube/sandbox.py.

    It keeps everything in `folder`, its log in `log`.
    """

    control_plane: ControlPlane
    folder: Path
    _process: subprocess.Popen[str] | None = field(default=None, init=False, repr=False)

    @property
    def log(self) -> Path:
        """What it says about itself."""
        return self.folder / "node-agent.log"

    def start(self) -> None:
        """Returns when it watches. Raises NodeAgentError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        certificates = self.control_plane.certificates
        # What Ray asks of a small machine must not keep the control plane from renewing its leases.
        command = ["nice", "-n", "10", sys.executable, "-m", "local.kube.node_agent"]
        options = {
            "kubeconfig": self.control_plane.admin_kubeconfig,
            "certificate": certificates.certificate,
            "key": certificates.key,
            "folder": self.folder,
        }
        arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        root = Path(__file__).parents[2]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, cwd=root
            )
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            self.kill()
            raise NodeAgentError(f"The node agent ended: {self.log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """Returns when it and the processes of all pods have ended; they end with it, so it is killed if it takes too long."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """As when the machine of the nodes dies."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
