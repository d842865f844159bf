"""A real Ray cluster on this machine: every node has its own raylet, agents and Serve proxy."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from ray._private.node import Node
from ray.cluster_utils import Cluster

from local.serve.simulated_node import SimulatedNode

_OBJECT_STORE_BYTES = 100 * 1024 * 1024
_SERVE_PORT = 8000


class PortInUseError(Exception):
    """Something listens where Serve's proxies would; the kernel would hand requests to either."""


class LocalCluster:
    """Started by `with`, which raises PortInUseError beside another one; afterwards no process and no file of it is left.

    Guarantees: the nodes are those given, with the resources given, and no other; a worker's processes see the
    environment of this process plus `environment`. Each node has an address of its own in 127.0.0.0/8, so that
    addresses which the application hands around are as distinct as pods' are.
    """

    def __init__(self, *, nodes: Iterable[SimulatedNode], environment: Mapping[str, str]) -> None:
        self._nodes = tuple(nodes)
        # Ray's sockets live in it, and a socket's path has 107 bytes at most.
        self._directory = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
        # Ray would start one Python process for each declared CPU at once; 56 of them need not exist for this.
        self._environment = {
            "RAY_enable_worker_prestart": "0",
            "RAY_prestart_worker_first_driver": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_LOG_TO_DRIVER": "0",
            # Ray tells which resources a replica waits for after 30 s; nothing here comes later.
            "RAY_SERVE_SLOW_STARTUP_WARNING_S": "8",
            # Where Ray notes the address of the newest cluster: that of others is left alone, and not every machine has one.
            "RAY_TMPDIR": str(self._directory),
            **environment,
        }
        self._started: dict[Node, SimulatedNode] = {}
        self._addresses = itertools.count(11)
        self.dashboard_url = ""

    def __enter__(self) -> LocalCluster:
        if _answers(_SERVE_PORT):
            shutil.rmtree(self._directory)
            raise PortInUseError(f"port {_SERVE_PORT} is in use: Serve's proxies would share it with another cluster")
        os.environ.update(self._environment)
        (self._directory / "ray").mkdir()
        # At exit: a process that is told to end (SIGTERM) takes the cluster with it, too.
        self._cluster = Cluster(shutdown_at_exit=True)
        try:
            # The head first; the others start together.
            for node in self._nodes:
                self.add(node, wait=not self._started)
            self._cluster.wait_for_nodes()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def add(self, node: SimulatedNode, *, wait: bool = True) -> Node:
        """Start one more node; the first is the head."""
        arguments = {
            "num_cpus": node.cpus,
            "num_gpus": node.gpus,
            "resources": dict(node.resources),
            "object_store_memory": _OBJECT_STORE_BYTES,
            "node_ip_address": f"127.0.0.{next(self._addresses)}",
        }
        if not self._started:
            port = _free_port()
            self.dashboard_url = f"http://127.0.0.1:{port}"
            arguments |= {
                "include_dashboard": True,
                "dashboard_host": "127.0.0.1",
                "dashboard_port": port,
                "temp_dir": str(self._directory),
            }
        started = self._cluster.add_node(wait=wait, **arguments)
        self._started[started] = node
        return started

    def remove(self, node: Node) -> None:
        """End a node and everything on it, as when its machine is lost."""
        self._cluster.remove_node(node, allow_graceful=False)
        del self._started[node]

    @property
    def address(self) -> str:
        """Where `ray.init` finds it."""
        return self._cluster.address

    @property
    def logs(self) -> Path:
        """The folder of all nodes' logs."""
        return self._directory / "session_latest" / "logs"

    def groups(self) -> dict[str, str]:
        """The worker group (or `head`) of every running node, by Ray's node id."""
        return {started.node_id: node.group for started, node in self._started.items()}

    def _stop(self) -> None:
        self._cluster.shutdown()
        for process in _left_over(self._directory):
            os.kill(process, signal.SIGKILL)
        shutil.rmtree(self._directory, ignore_errors=True)


def _left_over(directory: Path) -> list[int]:
    """Processes that were started for this cluster and outlived it: their command names its folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(directory).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
