"""What the machine or the settings lack is said before anything starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from local.kube.requirements import missing_on_this_machine
from local.kube.sandbox import MARK, NOT_HERE
from local.kube.settings_here import unusable_settings
from settings import Settings

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("ip", "nsenter", "openssl", "wget")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the PATH, with the needed commands."""
    for name in COMMANDS:
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_nothing_is_missing_where_these_tests_run(commands: Path) -> None:
    assert missing_on_this_machine() == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ip", "the command ip: install iproute2"),
        ("nsenter", "the command nsenter: install util-linux"),
        ("openssl", "the command openssl: install openssl"),
        ("wget", "the command wget: install wget"),
    ],
)
def test_a_missing_command_is_named_with_its_package(commands: Path, name: str, said: str) -> None:
    (commands / name).unlink()
    assert missing_on_this_machine() == [said]


@pytest.mark.parametrize("version", ["OpenSSL 1.1.1w  11 Sep 2023", "LibreSSL 3.3.6"])
def test_an_older_openssl_is_named(commands: Path, version: str) -> None:
    (commands / "openssl").unlink()
    (commands / "openssl").write_text(f"#!/bin/sh\necho '{version}'\n")
    (commands / "openssl").chmod(0o755)
    assert missing_on_this_machine() == [f"OpenSSL 3.0 or later, found: {version.removeprefix('OpenSSL ')}"]


@pytest.mark.parametrize(("release", "enough"), [("5.11.22-generic", False), ("5.12.0", True), ("6.1.9", True), ("4.18", False)])
def test_an_older_kernel_is_named(monkeypatch: pytest.MonkeyPatch, release: str, enough: bool) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    assert missing_on_this_machine() == ([] if enough else [f"Linux 5.12 or later, found: {release}"])


def test_the_sandbox_says_all_of_it_and_that_it_cannot_run_here(commands: Path) -> None:
    (commands / "wget").unlink()
    (commands / "ip").unlink()
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    command = [sys.executable, "-m", "local.kube.sandbox", "--", "true"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == NOT_HERE
    assert run.stderr == ("The local Kubernetes needs the command ip: install iproute2; the command wget: install wget.\n")


def test_the_default_settings_are_usable() -> None:
    assert unusable_settings(Settings.load(context={}, environ={})) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("K8S_VERSION", "1.34", "the local Kubernetes is 1.35.4; allowed is 1.35"),
        ("KUBERAY_VERSION", "1.5.0", "the local operator is another; allowed is 1.4.0"),
        ("DLC_IMAGE", "registry.example/vllm:1", "not found; allowed is a ray:serve-llm-... image, which Ray here stands for"),
    ],
)
def test_what_is_not_on_this_machine_is_refused(name: str, value: str, said: str) -> None:
    [problem] = unusable_settings(Settings.load(context={}, environ={name: value}))
    assert problem.startswith(f"{name}={value}: ")
    assert problem.endswith(said)
