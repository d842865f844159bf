"""Templates from the real application, and a Ray cluster that runs what they hold."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OVERLAY = ROOT / "local" / "serve" / "overlay"
# vLLM without torch, in this process as in the cluster's.
sys.path.insert(0, str(OVERLAY))

from running_service import RunningService  # noqa: E402

from local.serve.engine_environment import engine_environment  # noqa: E402 - needs the overlay
from local.serve.ray_service import RayService  # noqa: E402


@pytest.fixture(scope="session")
def service_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RayService]:
    """`service_of(MAX_MODEL_LEN="8192")`: the RayService of the application synthesized with these settings."""

    @cache
    def synthesize(settings: tuple[tuple[str, str], ...]) -> RayService:
        assembly = tmp_path_factory.mktemp("cdk.out")
        environment = {**os.environ, **dict(settings), "CDK_OUTDIR": str(assembly), "CDK_VALIDATION": "false"}
        environment.pop("PYTHONPATH", None)
        python = ROOT / ".venv" / "bin" / "python"
        # Any failure of the application is a failure of these tests: there is nothing else that they could test.
        subprocess.run([python, "app.py"], cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
        return RayService.from_assembly(assembly)

    return lambda **settings: synthesize(tuple(sorted(settings.items())))


@pytest.fixture(scope="session")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder for temporary files, as it is on a machine where no Ray has run before."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def running(service_of: Callable[..., RayService], temporary: Path) -> Iterator[RunningService]:
    """The template's own RayService, answering."""
    with RunningService(service=service_of(), environment=engine_environment()) as running:
        yield running
