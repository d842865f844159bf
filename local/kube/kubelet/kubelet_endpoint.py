"""The kubelet's HTTPS endpoint, as far as `kubectl logs` needs it."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

PORT = 10250
_LOGS = re.compile(r"/containerLogs/([^/]+)/([^/]+)/([^/]+)")
_FOLLOW_SECONDS = 0.3

FindLog = Callable[[str, str, str, bool], Path | None]
"""(namespace, pod, container, previous) to the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletEndpoint:
    """One server for all nodes, whose addresses are this machine's; the API server does not verify a kubelet's certificate.

    Output is kept as it was written, without times: what asks for them is refused.
    """

    certificate: Path
    key: Path
    find_log: FindLog
    lives: Callable[[str, str], bool]

    def start(self) -> None:
        """Until this process ends."""
        server = ThreadingHTTPServer(("0.0.0.0", PORT), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True, name="kubelet").start()


def _handler(endpoint: KubeletEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            match = _LOGS.fullmatch(unquote(parts.path))
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if not match:
                return self._refuse(404, "this node serves container logs only")
            if any(query.get(name) not in (None, "false") for name in ("timestamps", "sinceTime", "sinceSeconds")):
                return self._refuse(400, "this node keeps container logs without times")
            namespace, pod, container = match.groups()
            file = endpoint.find_log(namespace, pod, container, query.get("previous") == "true")
            if not file:
                return self._refuse(404, f'container "{container}" of pod "{pod}" has no such log')
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            limit = int(query["limitBytes"]) if "limitBytes" in query else None
            with file.open("rb") as log:
                if "tailLines" in query:
                    log.seek(_tail(log.read(), int(query["tailLines"])))
                self.wfile.write(log.read() if limit is None else log.read(limit))
                while query.get("follow") == "true" and endpoint.lives(namespace, pod):
                    self.wfile.write(log.read())
                    self.wfile.flush()
                    time.sleep(_FOLLOW_SECONDS)

        def _refuse(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _tail(text: bytes, lines: int) -> int:
    """Where the last lines begin."""
    starts = [0, *(match.end() for match in re.finditer(b"\n", text) if match.end() < len(text))]
    return starts[max(0, len(starts) - lines)] if lines else len(text)
