"""Answers GET on port 9402 with what this node's EFA devices sent and which backend NIXL started, as JSON.

    {"efa_tx_bytes": {"rdmap0s6": 17301504}, "nixl_backends": ["LIBFABRIC"]}

A container of its own beside the Ray worker runs it, so that nobody has to execute anything in the worker to know.
"""

import json
import re
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 9402
DEVICES = Path("/sys/class/infiniband")
LOGS = Path("/tmp/ray/session_latest/logs")
BACKEND = re.compile(rb"Backend (\w+) was instantiated")


def efa_tx_bytes(devices: Path = DEVICES) -> dict[str, int]:
    """Bytes sent since boot by device. The emulated RDMA writes of older cards count here, and nowhere else."""
    counters = sorted(devices.glob("*/ports/1/hw_counters/tx_bytes"))
    return {path.parents[3].name: int(path.read_text()) for path in counters}


def nixl_backends(logs: Path = LOGS) -> list[str]:
    """Backends named by the log that was written last among those that name any: earlier ones belong to ended engines."""
    newest, found = -1.0, set()
    for path in logs.rglob("*"):
        if not path.is_file() or path.suffix not in (".log", ".out", ".err"):
            continue
        names = {match.decode() for line in path.open("rb") for match in BACKEND.findall(line)}
        if names and path.stat().st_mtime > newest:
            newest, found = path.stat().st_mtime, names
    return sorted(found)


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"efa_tx_bytes": efa_tx_bytes(), "nixl_backends": nixl_backends()}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the kubelet and the verification are no news."""


if __name__ == "__main__":
    # As a container's first process it would ignore the signal, and hold its node for the pod's whole grace period.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ThreadingHTTPServer(("", PORT), _Answer).serve_forever()
