"""Starts one container, or holds the network of one pod. A program of its own: it changes the namespaces of its process.

    launcher.py pod <descriptor>        stdin: {"hostname", "host_network"}   status: {"ready": true}
    launcher.py container <descriptor>  stdin: what `container` reads         status: {"pid"}, or {"error"} and the end

The first line of stdin is JSON. After it come signal numbers, one a line, for the container's first process; the end of
stdin, which comes with the end of whoever started this, ends everything at once. Status lines go to the descriptor.
Exit status: that of the container's first process, 128 + signal where one ended it.

Runs with `python -I -S`, hence the standard library only and nothing of this project.
"""

import ctypes
import json
import os
import select
import signal
import sys

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
MNT_DETACH = 2
MOUNT_ATTR_RDONLY = 1
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
SYS_PIVOT_ROOT, SYS_MOUNT_SETATTR = {"x86_64": (155, 442), "aarch64": (41, 442)}[os.uname().machine]
PR_SET_PDEATHSIG = 1
# Made anew in every container, not taken from the machine.
OWN = ("dev", "proc", "sys", "tmp", "run", "lost+found")
STATUS = int(sys.argv[2])

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, flags=0, kind=None, options=None):
    encoded = [os.fsencode(value) if value is not None else None for value in (source, target, kind)]
    data = options.encode() if options else None
    check(libc.mount(*encoded, ctypes.c_ulong(flags), data), f"mount {source} on {target}")


def read_only(target):
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    result = libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), AT_RECURSIVE, ctypes.byref(attributes), 32)
    check(result, f"make {target} read-only")


def report(**fields):
    os.write(STATUS, json.dumps(fields).encode() + b"\n")


def pod(spec):
    libc.unshare(CLONE_NEWUTS | CLONE_NEWIPC | (0 if spec["host_network"] else CLONE_NEWNET))
    name = spec["hostname"].encode()
    libc.sethostname(name, len(name))
    report(ready=True)
    while os.read(0, 4096):
        pass


def container(spec):
    """Namespaces of the pod, own mounts and processes; then the command."""
    for kind in ("net", "uts", "ipc"):
        descriptor = os.open(f"/proc/{spec['pod']}/ns/{kind}", os.O_RDONLY)
        check(libc.setns(descriptor, 0), f"enter the pod's {kind} namespace")
        os.close(descriptor)
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWPID), "make namespaces")
    mount(None, "/", MS_REC | MS_PRIVATE)
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        first_process(spec)
    watched = os.pidfd_open(child)
    report(pid=child)
    os.close(STATUS)
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if watched in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return code if code >= 0 else 128 - code
        words = os.read(0, 4096)
        for number in words.split() or [signal.SIGKILL]:
            signal.pidfd_send_signal(watched, int(number))
        if not words:
            poll.unregister(0)


def first_process(spec):
    try:
        root(spec)
        os.chdir(spec["directory"])
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        # What is ignored here would stay so in the command.
        for number in (signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.nice(spec["nice"])
        os.set_inheritable(STATUS, False)
        command = spec["command"]
        path = spec["environment"].get("PATH", os.defpath)
        found = [command[0]] if "/" in command[0] else [os.path.join(folder, command[0]) for folder in path.split(":")]
        for candidate in found:
            if os.path.isfile(candidate):
                os.execve(candidate, command, spec["environment"])
        raise FileNotFoundError(f'exec: "{command[0]}": executable file not found in $PATH')
    except OSError as error:
        report(error=str(error))
        os._exit(128)


def root(spec):
    """A root of tmpfs in which the machine's folders appear read-only; the volumes, the devices, /tmp and /run are its own."""
    new = spec["root"]
    mount("tmpfs", new, kind="tmpfs", options="mode=755")
    for entry in os.scandir("/"):
        if entry.name not in OWN:
            take(entry.path, os.path.join(new, entry.name))
    for name, mode in (("tmp", 0o1777), ("run", 0o755), ("dev", 0o755), ("proc", 0o555), ("sys", 0o555)):
        os.mkdir(os.path.join(new, name))
        os.chmod(os.path.join(new, name), mode)
    mount("proc", f"{new}/proc", kind="proc")
    mount("/sys", f"{new}/sys", MS_BIND | MS_REC)
    devices(new)
    for path in spec["programs"]:
        bind(new, path, path, write=False)
    # Outer mount points before inner ones.
    for volume in sorted(spec["volumes"], key=lambda volume: volume["target"].count("/")):
        bind(new, volume["source"], volume["target"], write=not volume["read_only"])
    if spec["infiniband"]:
        mount("tmpfs", f"{new}/sys/class", kind="tmpfs", options="mode=755")
        bind(new, spec["infiniband"], "/sys/class/infiniband", write=True)
    old = f"{new}/.old"
    os.mkdir(old)
    check(libc.syscall(SYS_PIVOT_ROOT, os.fsencode(new), os.fsencode(old)), "pivot_root")
    os.chdir("/")
    check(libc.umount2(b"/.old", MNT_DETACH), "unmount the machine's root")
    os.rmdir("/.old")


def devices(new):
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        target = f"{new}/dev/{name}"
        open(target, "w").close()
        mount(f"/dev/{name}", target, MS_BIND)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{new}/dev/{name}")
    os.mkdir(f"{new}/dev/shm")
    mount("tmpfs", f"{new}/dev/shm", MS_NOSUID | MS_NODEV, "tmpfs", "mode=1777,size=64m")


def take(source, target):
    """Let something of the machine appear at `target`, which does not exist yet; a link stays a link."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.mkdir(target)
    else:
        open(target, "w").close()
    mount(source, target, MS_BIND | MS_REC)
    if os.path.isdir(source) or os.path.isfile(source):
        read_only(target)


def bind(new, source, target, *, write):
    """Mount over `target`, which is made where it is missing."""
    place = inside(new, target)
    if not os.path.lexists(place):
        parent = os.path.dirname(place)
        make(new, parent)
        if os.path.isdir(source):
            os.mkdir(place)
        else:
            open(place, "w").close()
    mount(source, place, MS_BIND | MS_REC)
    if not write:
        read_only(place)


def inside(new, path):
    """Where an absolute path of the container lies, its links followed as the container would."""
    place = new
    for part in path.strip("/").split("/"):
        place = os.path.join(place, part)
        if os.path.islink(place):
            link = os.readlink(place)
            place = inside(new, link) if link.startswith("/") else os.path.normpath(os.path.join(os.path.dirname(place), link))
    return place


def make(new, folder):
    """Make a folder and its parents. One of the machine's that cannot take it is replaced by a copy of links and mounts."""
    if not os.path.isdir(folder):
        make(new, os.path.dirname(folder))
    try:
        if not os.path.isdir(folder):
            os.mkdir(folder)
        probe = os.path.join(folder, ".probe")
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError:
        original = "/" + os.path.relpath(folder, new)
        mount("tmpfs", folder, kind="tmpfs", options="mode=755")
        for entry in os.scandir(original):
            take(entry.path, os.path.join(folder, entry.name))


def main():
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return 1
        line += byte
    spec = json.loads(line)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.argv[1] == "pod":
        pod(spec)
        return 0
    try:
        return container(spec)
    except OSError as error:
        report(error=str(error))
        return 128


sys.exit(main())
