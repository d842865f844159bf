"""Whatever runs in the sandbox ends with it, and meets nothing of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.kube.sandbox import MARK
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
SANDBOX = [sys.executable, "-m", "local.kube.sandbox", "--"]
# These tests make sandboxes of their own, also where they run in one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != MARK}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SANDBOX, *command], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def started(script: str) -> Iterator[subprocess.Popen[str]]:
    command = [*SANDBOX, "bash", "-c", script]
    with subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


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
    with started("trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.1; done") as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        said, _ = process.communicate(timeout=20)
        assert (said, process.returncode) == ("asked\n", 3)


def test_termination_is_never_lost() -> None:
    """From before the interpreter runs to after the command does."""

    def status(after_s: float) -> int:
        with started("sleep 60") as process:
            time.sleep(after_s)
            process.terminate()
            process.communicate(timeout=20)
        return process.returncode

    began = time.monotonic()
    with started("echo ready; sleep 60") as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        start_s = time.monotonic() - began
        process.terminate()
        process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    for part in range(1, 16):
        assert status(start_s * part / 12) in (-signal.SIGTERM, 128 + signal.SIGTERM)


def test_everything_ends_when_the_sandbox_is_killed() -> None:
    with started("setsid sleep 98765 & sleep 98766 & wait"):
        until(lambda: processes("sleep 98765") and processes("sleep 98766"), "both run")
    until(lambda: not processes("sleep 98765") and not processes("sleep 98766"), "no process is left", 10)


def test_what_the_command_leaves_behind_ends_with_it() -> None:
    runs = "ps -A -ww -o command= | grep -qx 'sleep 98767'"
    assert run("bash", "-c", f"setsid sleep 98767 >/dev/null 2>&1 & until {runs}; do sleep 0.1; done; exit 5").returncode == 5
    until(lambda: not processes("sleep 98767"), "no process is left", 10)
