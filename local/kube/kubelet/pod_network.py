"""Network of the pods: one bridge, one namespace and one address per pod."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.kube.kubelet.container_process import launch
from local.kube.sandbox import BRIDGE, GATEWAY, POD_NETWORK


@dataclass(slots=True, kw_only=True)
class PodSandbox:
    """The namespaces that a pod's containers share; they live until `close`."""

    address: str
    pid: int
    _process: subprocess.Popen[bytes]

    def close(self) -> None:
        """Once the containers have ended."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


@dataclass(slots=True)
class PodNetwork:
    """Hands out the addresses of POD_NETWORK, none twice, so that what is remembered of a gone pod meets nobody else."""

    _numbers: Any = field(default_factory=lambda: itertools.count(256), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def open(self, *, hostname: str, log: Path, host_address: str | None) -> PodSandbox:
        """Namespaces for a pod; with `host_address`, of a pod in its node's network. Raises OSError, CalledProcessError."""
        process, status = launch("pod", {"hostname": hostname, "host_network": host_address is not None}, log=log)
        with status:
            line = status.readline()
        if not line or not json.loads(line).get("ready"):
            raise OSError(f"no namespaces for the pod: {log.read_text(errors='replace')[-500:]}")
        if host_address is not None:
            return PodSandbox(address=host_address, pid=process.pid, _process=process)
        with self._lock:
            number = next(self._numbers)
        network = ipaddress.IPv4Network(POD_NETWORK)
        address = str(network[number])
        outer = f"veth{number}"
        _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
        _ip("link", "set", outer, "master", BRIDGE, "up")
        commands = [
            "link set lo up",
            f"addr add {address}/{network.prefixlen} dev eth0",
            "link set eth0 up",
            f"route add default via {GATEWAY}",
        ]
        enter = ["nsenter", f"--target={process.pid}", "--net", "ip", "-batch", "-"]
        subprocess.run(enter, input="\n".join(commands).encode(), check=True, capture_output=True)
        return PodSandbox(address=address, pid=process.pid, _process=process)


def add_local_address(address: str) -> None:
    """Let this machine answer to an address, of a node or a service; nothing happens where it does already."""
    with contextlib.suppress(subprocess.CalledProcessError):
        _ip("addr", "add", f"{address}/32", "dev", "lo")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
