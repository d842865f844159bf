"""Where programs are looked for, and what is said when they are missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.kube.binaries import LAYER_PROGRAMS, OPERATOR_CONFIG, PACKAGES, BinariesMissing, KubeBinaries, cache

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = (*PACKAGES, *LAYER_PROGRAMS, OPERATOR_CONFIG)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has nothing: an empty cache and no Go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def test_what_is_missing_is_named_with_the_command_that_gets_it(machine: Path) -> None:
    put(cache(), *(name for name in EVERYTHING if name not in ("etcd", "helm")))
    with pytest.raises(BinariesMissing) as missing:
        KubeBinaries.find()
    assert str(missing.value) == f"etcd, helm not found in {cache()}: make kube-binaries"


def test_envtest_programs_come_first_and_never_replace_kubectl(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = machine / "assets"
    put(assets, "etcd", "kube-apiserver", "kubectl")
    put(cache(), *EVERYTHING)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    found = KubeBinaries.find()
    assert found.path("etcd") == assets / "etcd"
    assert found.path("kube-scheduler") == cache() / "kube-scheduler"
    assert found.path("kubectl") == cache() / "kubectl"


def test_the_cache_is_outside_the_repository_and_named_after_the_versions(machine: Path) -> None:
    assert not cache().is_relative_to(ROOT)
    assert cache().name == "kubernetes-1.35.4-etcd-3.6.16-kuberay-1.4.0"


def test_without_go_the_command_says_so_and_fails(machine: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "local.kube"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(machine)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 3
    assert run.stderr.strip() == (
        f"make kube-binaries: {', '.join([*PACKAGES, OPERATOR_CONFIG])} not found in {cache()}: making them needs Go 1.25 or later, "
        "found: none. Install it, then: make kube-binaries"
    )


def test_a_build_that_takes_too_long_says_how_to_go_on(machine: Path) -> None:
    go = machine / "bin" / "go"
    go.parent.mkdir()
    go.write_text('#!/bin/sh\n[ "$1" = env ] && echo go1.99.0 || exec /bin/sleep 60\n')
    go.chmod(0o755)
    run = subprocess.run(
        [sys.executable, "-m", "local.kube"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(go.parent), "KUBE_BUILD_SECONDS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert run.returncode == 3
    assert "etcd is not built within KUBE_BUILD_SECONDS=1" in run.stderr
    assert "make kube-binaries" in run.stderr
