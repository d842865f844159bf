"""The environment in which the cluster's processes find an engine that needs no GPU."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def engine_environment() -> dict[str, str]:
    """Puts the stand-in in vLLM's place. The config stays untouched: Ray Serve LLM reads the engine's class from here."""
    paths = [str(ROOT / "local" / "serve" / "overlay"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "RAYLLM_VLLM_ENGINE_CLS": "local.serve.stand_in_engine.StandInEngine",
    }
