"""The Serve config as this machine can run it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from local.real_engine.tiny_model import Kind

Machine = Literal["cpu", "gpu"]
MACHINES: tuple[Machine, ...] = get_args(Machine)

MAX_MODEL_LEN = 2048
"""Tokens; the tiny models have 4096 positions."""

_COMMON = {
    "HF_HUB_OFFLINE": "1",
    # A busy machine takes its time to start a process: that a replica has no place is said after ten minutes only.
    "RAY_SERVE_SLOW_STARTUP_WARNING_S": "600",
}
_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
# Each simulated node takes the machine's first GPU for its own, and tests start a third engine to compare with.
_GPU_MEMORY_UTILIZATION = 0.1


def machine_of(environ: Mapping[str, str]) -> Machine:
    """ENGINE_MACHINE, which is cpu where it is not set. Raises ValueError for anything else."""
    asked = environ.get("ENGINE_MACHINE") or "cpu"
    for machine in MACHINES:
        if machine == asked:
            return machine
    raise ValueError(f"ENGINE_MACHINE={asked}: allowed is one of {', '.join(MACHINES)}")


def environment(machine: Machine) -> dict[str, str]:
    """Of the processes, not of the config. On a CPU: 1 GiB of KV cache an engine, no thread pinning, no compiler."""
    return {**_COMMON, **(_CPU if machine == "cpu" else {})}


def for_machine(config: Mapping[str, Any], *, machine: Machine, kind: Kind, model: Path) -> dict[str, Any]:
    """A copy in which each side differs in what the machine lacks, and in nothing else.

    * the weights are the tiny model's, and `max_model_len` at most MAX_MODEL_LEN;
    * there is no `accelerator_type`; pins and strategy stay;
    * the backend is UCX and FI_PROVIDER is gone: LIBFABRIC needs EFA, or at least libfabric.

    On a CPU also: `accelerator_config` says so and there is no GPU in the bundles; `enforce_eager`, as there is no compiler;
    a dense model gets `kv_buffer_device: cpu`, which a hybrid refuses. On a GPU also: a tenth of its memory for each engine, and
    a hybrid takes vLLM's own kernel for prompts: FlashInfer's, the default on Hopper, is compiled at the first request.
    What the model family requires stays as it is.
    """
    changed = copy.deepcopy(dict(config))
    for application in changed["applications"]:
        for name in ("prefill_config", "decode_config"):
            side = application["args"][name]
            side["model_loading_config"]["model_source"] = str(model)
            side.pop("accelerator_type", None)
            side.get("runtime_env", {}).get("env_vars", {}).pop("FI_PROVIDER", None)
            engine = side["engine_kwargs"]
            engine["max_model_len"] = min(engine["max_model_len"], MAX_MODEL_LEN)
            transfer = engine["kv_transfer_config"]
            transfer["kv_connector_extra_config"]["backends"] = ["UCX"]
            if machine == "gpu":
                engine["gpu_memory_utilization"] = _GPU_MEMORY_UTILIZATION
                if kind == "hybrid":
                    engine["gdn_prefill_backend"] = "triton"
                continue
            side["accelerator_config"] = {"kind": "cpu"}
            del side["placement_group_config"]["bundle_per_worker"]["GPU"]
            engine["enforce_eager"] = True
            if kind == "dense":
                transfer["kv_buffer_device"] = "cpu"
    return changed
