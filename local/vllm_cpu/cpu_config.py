"""The Serve config as a CPU can run it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.vllm_cpu.tiny_model import Kind

ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    # A busy CPU takes its time to start a process: that a replica has no place is said after ten minutes only.
    "RAY_SERVE_SLOW_STARTUP_WARNING_S": "600",
}
"""Of the processes, not of the config: 1 GiB of KV cache an engine, no thread pinning, no compiler, no model hub."""

MAX_MODEL_LEN = 2048
"""Tokens; the tiny models have 4096 positions."""


def for_cpu(config: Mapping[str, Any], *, kind: Kind, model: Path) -> dict[str, Any]:
    """A copy in which each side differs in what this machine lacks, and in nothing else.

    * the weights are the tiny model's, and `max_model_len` at most MAX_MODEL_LEN;
    * `accelerator_config` says CPU, there is no `accelerator_type` and no GPU in the bundles; pins and strategy stay;
    * the backend is UCX and FI_PROVIDER is gone: LIBFABRIC needs EFA, or at least libfabric;
    * `enforce_eager`: there is no compiler; a dense model gets `kv_buffer_device: cpu`, which a hybrid refuses.

    What the model family requires stays as it is.
    """
    changed = copy.deepcopy(dict(config))
    for application in changed["applications"]:
        for name in ("prefill_config", "decode_config"):
            side = application["args"][name]
            side["model_loading_config"]["model_source"] = str(model)
            side.pop("accelerator_type", None)
            side["accelerator_config"] = {"kind": "cpu"}
            del side["placement_group_config"]["bundle_per_worker"]["GPU"]
            side.get("runtime_env", {}).get("env_vars", {}).pop("FI_PROVIDER", None)
            engine = side["engine_kwargs"]
            engine["max_model_len"] = min(engine["max_model_len"], MAX_MODEL_LEN)
            engine["enforce_eager"] = True
            transfer = engine["kv_transfer_config"]
            transfer["kv_connector_extra_config"]["backends"] = ["UCX"]
            if kind == "dense":
                transfer["kv_buffer_device"] = "cpu"
    return changed
