"""The disaggregated application with real engines, as the tests use it."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from charts.serve_config import build_serve_config
from local.real_engine.machine_config import MAX_MODEL_LEN, for_machine, machine_of
from local.real_engine.tiny_model import VOCABULARY, Kind
from local.serve.local_cluster import LocalCluster
from local.serve.replica_row import ReplicaRow
from local.serve.serve_api import ServeApi

MAX_TOKENS = 12
MACHINE = machine_of(os.environ)
_ROOT = Path(__file__).resolve().parents[2]
_SPECIAL_TOKENS = 7
_ENGINE_SECONDS = 300
# Ray's exporter ends counts so; its histograms' _sum is made up from bucket midpoints and means nothing.
_TRANSFERS = re.compile(r"^ray_vllm_nixl_xfer_time_seconds_count\{[^}]*\} (\S+)$", re.MULTILINE)


def prompts(*, count: int, tokens: int, seed: int = 0) -> list[list[int]]:
    """Random token ids, different from prompt to prompt from the first on."""
    source = random.Random(f"{seed} {tokens}")
    return [[source.randrange(_SPECIAL_TOKENS, VOCABULARY) for _ in range(tokens)] for _ in range(count)]


def serve_config(*, kind: Kind, model: Path) -> dict[str, Any]:
    built = build_serve_config(
        model_id="tiny",
        model_source=str(model),
        prefill_replicas=1,
        decode_replicas=1,
        tensor_parallel_size=1,
        max_model_len=MAX_MODEL_LEN,
        kv_backend="LIBFABRIC",
        accelerator_type="L4",
        gpu_memory_mib=22888,
    )
    return for_machine(built, machine=MACHINE, kind=kind, model=model)


def run_single_engine(
    *, engine: dict[str, Any], environment: dict[str, str], questions: Sequence[Sequence[int]] = ()
) -> tuple[list[list[int]] | None, str]:
    """The answers of one engine, None when it did not start; and everything it printed."""
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.json"
        job = json.dumps({"engine": engine, "prompts": questions, "max_tokens": MAX_TOKENS})
        # A group of its own, to end as a whole; not a session, to which Linux gives the processor apart from the nicer Ray.
        engine_process = subprocess.Popen(
            [sys.executable, "-m", "local.real_engine.single_engine", str(answers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment, cwd=_ROOT, text=True, process_group=0,
        )  # fmt: skip
        try:
            output, _ = engine_process.communicate(job, timeout=_ENGINE_SECONDS)
        finally:
            # The engine core is a process of its own, which outlives the one that started it if that is killed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(engine_process.pid, signal.SIGKILL)
            engine_process.wait()
        return (json.loads(answers.read_text()) if engine_process.returncode == 0 else None), output


class RunningVllm:
    """`deploy` replaces the application; everything else asks the one that runs."""

    def __init__(self, *, cluster: LocalCluster, models: dict[Kind, Path]) -> None:
        self._cluster, self._models = cluster, models
        self._api = ServeApi(dashboard_url=cluster.dashboard_url)
        self._deployed: dict[str, Any] | None = None

    def deploy(self, kind: Kind, **engine_changes: Any) -> None:
        """Both sides with the family's settings, and these changes; nothing happens when that runs already."""
        config = serve_config(kind=kind, model=self._models[kind])
        for side in ("prefill_config", "decode_config"):
            config["applications"][0]["args"][side]["engine_kwargs"].update(engine_changes)
        if config != self._deployed:
            self._deployed = None
            self._api.deploy(config)
            self._api.wait_running(timeout_s=300)
            self._deployed = config

    def replicas(self) -> list[ReplicaRow]:
        return ReplicaRow.of(details=self._api.details(), groups=self._cluster.groups(), logs=self._cluster.logs)

    def wait(self) -> None:
        self._api.wait_running(timeout_s=300)

    def output(self) -> str:
        """Everything that the cluster's processes have printed."""
        return "".join(path.read_text(errors="replace") for path in self._cluster.logs.glob("worker-*"))

    @property
    def url(self) -> str:
        return self._api.url()

    def answers(self, questions: Sequence[Sequence[int]]) -> list[list[int]]:
        """Token ids of the greedy answers, asked one after another."""
        found = []
        for question in questions:
            body = {
                "model": "tiny",
                "prompt": question,
                "max_tokens": MAX_TOKENS,
                "temperature": 0,
                "ignore_eos": True,
                "return_token_ids": True,
            }
            answer = httpx.post(f"{self.url}/v1/completions", json=body, timeout=120).raise_for_status().json()
            found.append(answer["choices"][0]["token_ids"])
        return found

    def transfers(self) -> int:
        """KV transfers that the decode engines have counted so far, from the nodes' metrics."""
        import ray

        ray.init(address=self._cluster.address, ignore_reinit_error=True, logging_level="ERROR")
        try:
            pages = [
                httpx.get(f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics").text for node in ray.nodes()
            ]
        finally:
            ray.shutdown()
        return round(sum(float(count) for page in pages for count in _TRANSFERS.findall(page)))
