"""One control plane for all tests of this folder, with KubeRay's own CRDs. Run by .venv-local/bin/pytest.

Without the programs every test fails with the command that gets them; `make test` does not get this far then.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.kube.api_client import ApiClient
from local.kube.binaries import KubeBinaries
from local.kube.chart_repository import ChartRepository
from local.kube.control_plane import ControlPlane
from local.kube.real_kube import free_port

ROOT = Path(__file__).resolve().parents[2]
NAMESPACES = ("inference", "llm", "kuberay-system")
VERIFIER = "verifier"
PROCESSES = 2


@pytest.fixture(scope="session")
def binaries() -> KubeBinaries:
    return KubeBinaries.find()


@pytest.fixture(scope="session")
def rendering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], dict[str, Any]]]:
    """Synthesizes beside the start of the control plane; call it for the result."""
    folder = tmp_path_factory.mktemp("rendered")
    files = [folder / f"{number}.json" for number in range(PROCESSES)]
    command = [ROOT / ".venv" / "bin" / "python", "-m", "tests.kube.rendered"]
    processes = [
        subprocess.Popen([*command, file, str(number), str(PROCESSES)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for number, file in enumerate(files)
    ]

    def result() -> dict[str, Any]:
        for process in processes:
            _, said = process.communicate()
            assert process.returncode == 0, said
        return {name: found for file in files for name, found in json.loads(file.read_text()).items()}

    yield result
    for process in processes:
        process.kill()


@pytest.fixture(scope="session")
def control_plane(binaries: KubeBinaries, rendering, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    running = ControlPlane(
        binaries=binaries,
        folder=tmp_path_factory.mktemp("cluster"),
        port=free_port(),
        users={VERIFIER: ("ray-llm-verification",), "nobody": ()},
    )
    running.start()
    try:
        for namespace in NAMESPACES:
            made = running.kubectl("create", "namespace", namespace, "--save-config")
            assert made.returncode == 0, made.stderr
        made = running.kubectl("create", "-f", str(binaries.operator_config / "crd" / "bases"))
        assert made.returncode == 0, made.stderr
        waited = running.kubectl("wait", "crd", "--all", "--for", "condition=established", "--timeout", "30s")
        assert waited.returncode == 0, waited.stderr
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def api(control_plane: ControlPlane) -> ApiClient:
    return control_plane.api


@pytest.fixture(scope="session")
def rendered(control_plane: ControlPlane, rendering) -> dict[str, Any]:
    """What every settings combination gives to kubectl and helm, see rendered.py."""
    return rendering()


@pytest.fixture(scope="session")
def charts(binaries: KubeBinaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChartRepository]:
    # Those made here, wherever this runs: what the real ones render to is their authors' to test.
    repository = ChartRepository(binaries=binaries, folder=tmp_path_factory.mktemp("charts"), pulled=False)
    repository.start()
    yield repository
    repository.stop()
