"""`python -m local.real_engine`: the template's RayService with vLLM, on this machine's CPU or on one GPU of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from charts.model_family import ModelFamily
from local.real_engine.machine_config import MACHINES, Machine, environment, for_machine
from local.real_engine.tiny_model import make_tiny_model
from local.serve.local_run import add_arguments, run
from local.serve.ray_service import RayService

_START_TIMEOUT_S = 600


def main() -> int:
    """The exit status, as of `run`."""
    parser = argparse.ArgumentParser(prog="python -m local.real_engine", description=__doc__)
    add_arguments(parser)
    parser.add_argument("--machine", choices=MACHINES, default="cpu", help="what the engines run on (default: cpu)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return run(
            assembly=asked.assembly,
            keep=asked.keep,
            environment=environment(asked.machine),
            start_timeout_s=_START_TIMEOUT_S,
            config_of=lambda service: _config(service, machine=asked.machine, folder=Path(folder)),
        )


def _config(service: RayService, *, machine: Machine, folder: Path) -> dict[str, Any]:
    """With random weights of the architecture that the template's model has."""
    source = service.serve_config["applications"][0]["args"]["decode_config"]["model_loading_config"]["model_source"]
    kind = "dense" if ModelFamily.of(model_source=source).profile == "dense" else "hybrid"
    print(f"{source} is a {kind} model: random weights of that architecture", flush=True)
    return for_machine(service.serve_config, machine=machine, kind=kind, model=make_tiny_model(kind=kind, folder=folder))


if __name__ == "__main__":
    sys.exit(main())
