"""The template's RayService on this machine, from nothing to a streamed answer."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from local.serve.engine_environment import ROOT
from local.serve.local_cluster import LocalCluster, PortInUseError
from local.serve.openai_client import OpenAiClient
from local.serve.ray_service import RayService
from local.serve.replica_row import ReplicaRow, table
from local.serve.serve_api import NotRunningError, ServeApi

_PROMPT = "Explain the benefits of prefill/decode disaggregation."
_MAX_TOKENS = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--assembly` and `--keep`, as `run` takes them."""
    parser.add_argument("--assembly", type=Path, default=ROOT / "cdk.out", help="synthesized templates (default: cdk.out)")
    parser.add_argument("--keep", action="store_true", default=os.environ.get("KEEP") == "1", help="serve until Ctrl-C")


def run(
    *,
    assembly: Path,
    keep: bool,
    environment: Mapping[str, str],
    start_timeout_s: float,
    config_of: Callable[[RayService], Mapping[str, Any]],
) -> int:
    """0: the application runs and answered; 1: it did not, with Ray's reason; 2: there is nothing to run.

    `config_of` gives the config to deploy, `environment` is that of the cluster's processes.
    """
    try:
        service = RayService.from_assembly(assembly)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)

    config = config_of(service)
    workers = [node for node in service.nodes if node.group != "head"]
    say(f"{service.name}: starting Ray with 1 head and {len(workers)} workers")
    try:
        with LocalCluster(nodes=service.nodes, environment=environment) as cluster:
            api = ServeApi(dashboard_url=cluster.dashboard_url)
            say(f"cluster up, dashboard at {cluster.dashboard_url}; deploying serveConfigV2")
            api.deploy(config)
            details = api.wait_running(timeout_s=start_timeout_s)
            rows = ReplicaRow.of(details=details, groups=cluster.groups(), logs=cluster.logs)
            say(f"application running\n\n{table(rows)}\n")
            client = OpenAiClient(url=api.url())
            [model] = client.models()
            say(f"GET {client.url}/v1/models: {model}")
            say(f"POST {client.url}/v1/chat/completions: {client.chat(model=model, text=_PROMPT, max_tokens=_MAX_TOKENS)}")
            say("the same, streamed:")
            for piece in client.stream(model=model, text=_PROMPT, max_tokens=_MAX_TOKENS):
                print(piece, end="", flush=True)
            print()
            say("streamed to the end")
            if keep:
                say(f"serving at {client.url} until Ctrl-C")
                _wait_for_interrupt()
    except (NotRunningError, PortInUseError, httpx.HTTPError, EOFError) as error:
        say(f"FAILED: {error}")
        return 1
    return 0


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print()
