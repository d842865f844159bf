"""The node agent as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from local.kube.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
_STOP_SECONDS = 20


class NodeAgentError(Exception):
    """It ended before it was ready; holds the end of its log."""


@dataclass(slots=True, kw_only=True)
class NodeAgentProcess:
    """Carries out the pods of one cluster, inside the sandbox. Everything it writes is in `folder`."""

    control_plane: ControlPlane
    folder: Path
    _process: subprocess.Popen[str] | None = field(default=None, init=False, repr=False)

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "node-agent.log"

    def start(self) -> None:
        """Returns when it knows the nodes and pods that exist. Raises NodeAgentError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        certificates = self.control_plane.certificates
        # What Ray asks of a small machine must not keep the control plane from renewing its leases.
        command = ["nice", "-n", "10", sys.executable, "-m", "local.kube.node_agent", "--folder", self.folder]
        command += ["--kubeconfig", self.control_plane.admin_kubeconfig]
        command += ["--certificate", certificates.certificate, "--key", certificates.key]
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout
        if self._process.stdout.readline().strip() != "ready":
            self._process.wait()
            raise NodeAgentError(f"the node agent ended: {self.log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """End it, and with it every process of every pod."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
