"""One Ray cluster with the real vLLM; the application on it is replaced from test to test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.real_engine.machine_config import environment
from local.real_engine.tiny_model import NAMES, Kind, make_tiny_model
from local.serve.local_cluster import LocalCluster
from local.serve.simulated_node import SimulatedNode
from tests.vllm.running_vllm import MACHINE, RunningVllm


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: make_tiny_model(kind=kind, folder=folder) for kind in NAMES}


@pytest.fixture(scope="session")
def running(models: dict[Kind, Path]) -> Iterator[RunningVllm]:
    os.environ.update(environment(MACHINE))
    gpus = int(MACHINE == "gpu")
    workers = [SimulatedNode(group=group, cpus=8, gpus=gpus, resources={f"pd_{group}": 1}) for group in ("prefill", "decode")]
    head = SimulatedNode(group="head", cpus=0, gpus=0)
    with LocalCluster(nodes=[head, *workers], environment=environment(MACHINE)) as cluster:
        yield RunningVllm(cluster=cluster, models=models)
