"""The environment in which the cluster's processes find their engine."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("stand-in", "vllm")


def engine_environment(engine: str) -> dict[str, str]:
    """`stand-in` puts the engine that needs no GPU in vLLM's place; `vllm` leaves the installed vLLM alone.

    The config itself stays untouched: Ray Serve LLM reads the engine's class from the environment.
    """
    if engine == "vllm":
        return {}
    paths = [str(ROOT / "local" / "serve" / "overlay"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "RAYLLM_VLLM_ENGINE_CLS": "local.serve.stand_in_engine.StandInEngine",
    }
