"""`python -m local.real_engine`: the template's RayService with vLLM, on this machine's CPU or on one GPU of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import httpx

from charts.model_family import ModelFamily
from local.real_engine.machine_config import MACHINES, environment, for_machine
from local.real_engine.tiny_model import make_tiny_model
from local.serve.engine_environment import ROOT
from local.serve.local_cluster import LocalCluster
from local.serve.openai_client import OpenAiClient
from local.serve.ray_service import RayService
from local.serve.replica_row import ReplicaRow, table
from local.serve.serve_api import NotRunningError, ServeApi

_START_TIMEOUT_S = 600


def main() -> int:
    """0: vLLM answered; 1: it did not, with Ray's reason; 2: there is no template."""
    parser = argparse.ArgumentParser(prog="python -m local.real_engine", description=__doc__)
    parser.add_argument("--assembly", type=Path, default=ROOT / "cdk.out", help="synthesized templates (default: cdk.out)")
    parser.add_argument("--machine", choices=MACHINES, default="cpu", help="what the engines run on (default: cpu)")
    arguments = parser.parse_args()
    try:
        service = RayService.from_assembly(arguments.assembly)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)

    source = service.serve_config["applications"][0]["args"]["decode_config"]["model_loading_config"]["model_source"]
    kind = "dense" if ModelFamily.of(model_source=source).profile == "dense" else "hybrid"
    variables = environment(arguments.machine)
    with tempfile.TemporaryDirectory() as folder, LocalCluster(nodes=service.nodes, environment=variables) as cluster:
        model = make_tiny_model(kind=kind, folder=Path(folder))
        say(f"{source} is a {kind} model: random weights of that architecture in {model}")
        api = ServeApi(dashboard_url=cluster.dashboard_url)
        try:
            api.deploy(for_machine(service.serve_config, machine=arguments.machine, kind=kind, model=model))
            details = api.wait_running(timeout_s=_START_TIMEOUT_S)
            say("vLLM runs\n\n" + table(ReplicaRow.of(details=details, groups=cluster.groups(), logs=cluster.logs)) + "\n")
            client = OpenAiClient(url=api.url())
            [name] = client.models()
            pieces = list(client.stream(model=name, text="Random weights have little to say.", max_tokens=24))
            say(f"streamed an answer of {len(pieces)} pieces: {''.join(pieces)!r}")
        except (NotRunningError, httpx.HTTPError, EOFError) as error:
            say(f"FAILED: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
