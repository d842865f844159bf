"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from ray.cluster_utils import Cluster

from local.serve.simulated_node import SimulatedNode

Engine = Literal["standin", "vllm"]

_OVERLAY = Path(__file__).with_name("overlay")


class SimulatedCluster:
    """A head without CPUs and one Ray node for each worker, all on this machine, until `stop` or the process ends.

    GPUs are numbers: Ray schedules by them, nothing looks for a device, unless `engine` is "vllm", which then runs with
    the vLLM and the GPUs of this machine.
    """

    def __init__(self, *, workers: Iterable[SimulatedNode], engine: Engine = "standin") -> None:
        os.environ.update(_environment(engine=engine))
        port = free_port()
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "num_gpus": 0,
                "include_dashboard": True,
                "dashboard_port": port,
                "object_store_memory": 80 << 20,
            },
        )
        for worker in workers:
            self.add(worker)

    @property
    def dashboard_url(self) -> str:
        """Where the Serve REST API is; the port that KubeRay uses is 8265."""
        return f"http://{self._cluster.webui_url}"

    @property
    def address(self) -> str:
        """For `ray.init`."""
        return self._cluster.address

    @property
    def logs(self) -> Path:
        """Logs of all nodes: they share a session folder."""
        return Path(self._cluster.head_node.get_logs_dir_path())

    def add(self, worker: SimulatedNode) -> None:
        """Start one more node and wait until it has joined."""
        self._cluster.add_node(
            num_cpus=worker.cpus,
            num_gpus=worker.gpus,
            resources=dict(worker.resources),
            labels={"group": worker.group},
            object_store_memory=80 << 20,
        )

    def stop(self) -> None:
        """End every process of the cluster."""
        self._cluster.shutdown()


def free_port() -> int:
    """A TCP port that nothing listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _environment(*, engine: Engine) -> dict[str, str]:
    """What every Ray process inherits; the Serve config's own environment comes on top."""
    common = {
        "RAY_USAGE_STATS_ENABLED": "0",
        # Say after five seconds, instead of 30, that a replica finds no place.
        "RAY_SERVE_SLOW_STARTUP_WARNING_S": "5",
    }
    if engine == "vllm":
        return common
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != str(_OVERLAY)]
    return {
        **common,
        "PYTHONPATH": os.pathsep.join([str(_OVERLAY), *inherited]),
        "RAYLLM_VLLM_ENGINE_CLS": "stand_in_engine.StandInEngine",
    }
