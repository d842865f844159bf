"""The process of one container."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LAUNCHER = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py"))]


class StartError(Exception):
    """The command could not be started; the text is the kernel's."""


@dataclass(slots=True, kw_only=True)
class ContainerProcess:
    """Runs from `start` until it ends by itself, by `signal`, or with this process.

    What it writes is in `log`. It sees the files that launcher.py describes.
    """

    log: Path
    environment: Mapping[str, str]
    pid: int = field(default=0, init=False)
    _launcher: subprocess.Popen[bytes] = field(init=False, repr=False)

    def start(self, specification: Mapping[str, Any]) -> None:
        """Raises StartError."""
        self._launcher, status = launch("container", {**specification, "environment": self.environment}, log=self.log)
        with status:
            for line in status:
                fields = json.loads(line)
                if "error" in fields:
                    self._launcher.wait()
                    raise StartError(fields["error"])
                self.pid = fields["pid"]

    def exit_code(self) -> int | None:
        """128 + signal where one ended it; None while it runs."""
        return self._launcher.poll()

    def signal(self, number: int) -> None:
        """To the container's first process, which ignores what it does not handle, except SIGKILL, as process 1 does."""
        assert self._launcher.stdin
        with contextlib.suppress(OSError):
            self._launcher.stdin.write(f"{number}\n".encode())
            self._launcher.stdin.flush()

    def kill(self) -> None:
        """Returns when every process of the container has ended."""
        self.signal(signal.SIGKILL)
        self._launcher.wait()
        self.close()

    def close(self) -> None:
        """Once it has ended."""
        assert self._launcher.stdin
        with contextlib.suppress(OSError):
            self._launcher.stdin.close()

    def run(self, command: Sequence[str], *, timeout_s: float) -> tuple[int, str]:
        """Exit status and output of a command in the container; status 124 after `timeout_s`."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--wd=/", "--"]
        process = subprocess.Popen(
            [*enter, *command],
            env={**self.environment, "PATH": self.environment.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return 124, f"command timed out after {timeout_s:g} s"
        return process.returncode, output.decode(errors="replace")


def launch(what: str, specification: Mapping[str, Any], *, log: Path) -> tuple[subprocess.Popen[bytes], Any]:
    """launcher.py and the file of its status lines."""
    reader, writer = os.pipe()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*_LAUNCHER, what, str(writer)], stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=(writer,)
        )
    os.close(writer)
    assert process.stdin
    process.stdin.write(json.dumps(specification).encode() + b"\n")
    process.stdin.flush()
    return process, os.fdopen(reader, "rb")
