"""Whatever runs in the sandbox ends with it, and meets nothing of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from local.kube.sandbox import MARK
from tests.kube.living_cluster import until

ROOT = Path(__file__).resolve().parents[2]
SANDBOX = [sys.executable, "-m", "local.kube.sandbox", "--"]
# These tests make sandboxes of their own, also where they run in one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != MARK}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SANDBOX, *command], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)


def start(script: str) -> subprocess.Popen[str]:
    command = [*SANDBOX, "bash", "-c", script]
    return subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)


def processes(text: str) -> list[str]:
    found = subprocess.run(["ps", "-A", "-ww", "-o", "command="], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if line.strip() == text]


def test_exit_status_is_the_command_s() -> None:
    assert run("bash", "-c", "exit 7").returncode == 7
    assert run("bash", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    nothing = run("no-such-command")
    assert (nothing.returncode, nothing.stderr) == (127, "no-such-command: No such file or directory\n")


def test_it_has_a_network_processes_and_mounts_of_its_own() -> None:
    links = run("ip", "-brief", "link").stdout.split("\n")
    assert sorted(line.split()[0].partition("@")[0] for line in links if line) == ["lo", "pods0"]
    assert int(run("bash", "-c", "echo $$").stdout) < 20
    before = Path("/proc/self/mounts").read_text()
    mounted = run("bash", "-c", "mount -t tmpfs tmpfs /mnt && grep -c ' /mnt tmpfs' /proc/self/mounts")
    assert mounted.stdout.strip() == "1"
    assert Path("/proc/self/mounts").read_text() == before


def test_names_of_the_outside_are_refused_at_once() -> None:
    script = "import socket, sys\ntry: socket.getaddrinfo('example.com', 80)\nexcept socket.gaierror: sys.exit(3)"
    assert run(sys.executable, "-c", script).returncode == 3


def test_termination_reaches_the_command() -> None:
    process = start("trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.1; done")
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    said, _ = process.communicate(timeout=20)
    assert (said, process.returncode) == ("asked\n", 3)


# From before the interpreter runs to after the command does.
@pytest.mark.parametrize("milliseconds", range(20, 320, 20))
def test_termination_is_never_lost(milliseconds: int) -> None:
    process = start("sleep 60")
    time.sleep(milliseconds / 1000)
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)


def test_everything_ends_when_the_sandbox_is_killed() -> None:
    process = start("setsid sleep 98765 & sleep 98766 & echo ready; wait")
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    assert processes("sleep 98765")
    process.kill()
    process.wait(timeout=20)
    until(lambda: not processes("sleep 98765") and not processes("sleep 98766"), "processes are left", 10)


def test_what_the_command_leaves_behind_ends_with_it() -> None:
    assert run("bash", "-c", "setsid sleep 98767 >/dev/null 2>&1 & exit 0").returncode == 0
    until(lambda: not processes("sleep 98767"), "a process is left", 10)
