"""`python -m local.kube.sandbox -- command ...`: run a command in Linux namespaces of its own.

Inside, the command is root of a machine that has the same files, its own processes, an empty network with a loopback and a
bridge for pods, and its own mounts. Nothing that it does to the network or to the mounts is seen outside, no port of it
meets one of the machine, and when it ends, or this process does (however), every process inside ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from local.kube.requirements import missing_on_this_machine

BRIDGE = "pods0"
POD_NETWORK = "10.244.0.0/16"
GATEWAY = "10.244.0.1"
"""This machine's address inside, as pods see it."""

NOT_HERE = 3
"""Exit status where this machine cannot do it, so that what is wrong otherwise is not taken for that."""

MARK = "LOCAL_KUBE_SANDBOX"
"""Environment variable that is set inside."""

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 30
_libc = ctypes.CDLL(None, use_errno=True)


class SandboxError(Exception):
    """This machine lacks what it takes; says what and what to do."""


def sandboxed() -> bool:
    """Whether this process is inside."""
    return MARK in os.environ


def run(command: list[str]) -> int:
    """The command's exit status, 128 + signal where one ended it. Raises SandboxError."""
    if sandboxed():
        os.execvp(command[0], command)
    if sys.platform != "linux":
        raise SandboxError(f"The local Kubernetes needs Linux namespaces, and this is {sys.platform}: run it in a Linux VM.")
    if missing := missing_on_this_machine():
        raise SandboxError(f"The local Kubernetes needs {'; '.join(missing)}.")
    _enter()
    # Process 1 loses for good what it has no handler for, so that the signal has to wait until both have theirs.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    child = os.fork()
    if child == 0:
        os._exit(_first_process(command))
    # The command gets a Ctrl-C from the terminal itself; who stops this process only means the command, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256


def _enter() -> None:
    spaces = _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(spaces) == 0:
        return
    if _libc.unshare(spaces | _CLONE_NEWUSER):
        reason = os.strerror(ctypes.get_errno())
        raise SandboxError(
            f"The local Kubernetes needs Linux namespaces, and the kernel refuses them: {reason}. Run as root (in Docker with "
            "--privileged), or allow them to users: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, "
            "kernel.apparmor_restrict_unprivileged_userns=0, whichever of them this system has."
        )
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise SandboxError(
            f"The local Kubernetes needs Linux namespaces, and the kernel gives users none of use: {error.strerror}. Run as "
            "root, or sysctl kernel.apparmor_restrict_unprivileged_userns=0."
        ) from None


def _first_process(command: list[str]) -> int:
    """Process 1 of the new namespaces: reaps what is orphaned; its end is everybody's."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        _mount(None, "/", _MS_REC | _MS_PRIVATE)
        _mount("proc", "/proc", 0, kind="proc")
        _without_name_servers()
        for arguments in (
            ("link", "set", "lo", "up"),
            ("link", "add", BRIDGE, "type", "bridge"),
            ("addr", "add", f"{GATEWAY}/16", "dev", BRIDGE),
            ("link", "set", BRIDGE, "up"),
            # The API server takes the address of the default route for its own.
            ("route", "add", "default", "dev", BRIDGE, "src", GATEWAY),
        ):
            subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        print(f"The local Kubernetes cannot set up its namespaces: {error} {said}", file=sys.stderr)
        return 2
    return _supervise(command)


def _supervise(command: list[str]) -> int:
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def stop(number: int, _: object) -> None:
        if process is None:
            early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
        signal.alarm(_GRACE_SECONDS)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        process = subprocess.Popen(command, env={**os.environ, MARK: "1"})
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in early:
        stop(number, None)
    while True:
        pid, status = os.wait()
        if pid == process.pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _without_name_servers() -> None:
    """Outside names are refused at once: a server that cannot be reached would take seconds."""
    configuration = Path("/etc/resolv.conf")
    if configuration.exists():
        folder = tempfile.mkdtemp()
        _mount("tmpfs", folder, 0, kind="tmpfs")
        own = Path(folder, "resolv.conf")
        own.write_text("nameserver 127.0.0.1\n")
        _mount(str(own), str(configuration.resolve()), _MS_BIND)
        _libc.umount2(folder.encode(), _MNT_DETACH)
        os.rmdir(folder)


def _mount(source: str | None, target: str, flags: int, *, kind: str | None = None) -> None:
    encoded = [value.encode() if value is not None else None for value in (source, target, kind)]
    if _libc.mount(*encoded, ctypes.c_ulong(flags), None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {target}: {os.strerror(number)}")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        sys.exit("usage: python -m local.kube.sandbox -- command ...")
    try:
        sys.exit(run(words))
    except SandboxError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_HERE)
