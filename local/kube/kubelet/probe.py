"""One probe of one container."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from local.kube.kubelet.container_process import ContainerProcess

_OUTPUT_LIMIT = 500


@dataclass(slots=True, kw_only=True)
class Probe:
    """Executes as its specification says, from `start` until `stop`.

    `passed` is called once the success threshold is met after failures or at the start, `failed` with a message every
    time the failure threshold is met; both from the probe's own thread.
    """

    specification: Mapping[str, Any]
    process: ContainerProcess
    address: str
    ports: Mapping[str, int]
    passed: Callable[[], None]
    failed: Callable[[str], None]
    _stop: threading.Event = field(default_factory=threading.Event, init=False)

    def start(self) -> None:
        """Begin after initialDelaySeconds."""
        threading.Thread(target=self._repeat, daemon=True, name="probe").start()

    def stop(self) -> None:
        """`passed` and `failed` are not called again."""
        self._stop.set()

    def _repeat(self) -> None:
        specification = self.specification
        successes = failures = 0
        wait = float(specification.get("initialDelaySeconds", 0))
        while not self._stop.wait(wait):
            wait = float(specification.get("periodSeconds", 10))
            well, said = self._once(float(specification.get("timeoutSeconds", 1)))
            if self._stop.is_set():
                return
            successes, failures = (successes + 1, 0) if well else (0, failures + 1)
            if well and successes == specification.get("successThreshold", 1):
                self.passed()
            elif not well and failures >= specification.get("failureThreshold", 3):
                self.failed(said)

    def _once(self, timeout_s: float) -> tuple[bool, str]:
        if "exec" in self.specification:
            code, said = self.process.run(self.specification["exec"]["command"], timeout_s=timeout_s)
            return code == 0, said[-_OUTPUT_LIMIT:]
        try:
            if "httpGet" in self.specification:
                return self._http(self.specification["httpGet"], timeout_s)
            if "tcpSocket" in self.specification:
                wanted = self.specification["tcpSocket"]
                socket.create_connection((wanted.get("host") or self.address, self._port(wanted["port"])), timeout_s).close()
                return True, ""
        except (OSError, http.client.HTTPException) as error:
            return False, str(error) or type(error).__name__
        return False, f"this node has no probe of kind {', '.join(sorted(self.specification))}"

    def _http(self, wanted: Mapping[str, Any], timeout_s: float) -> tuple[bool, str]:
        host, port = wanted.get("host") or self.address, self._port(wanted["port"])
        if wanted.get("scheme") == "HTTPS":
            # The kubelet does not verify either.
            context = ssl._create_unverified_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        try:
            headers = {header["name"]: header["value"] for header in wanted.get("httpHeaders", [])}
            connection.request("GET", wanted.get("path", "/"), headers={"User-Agent": "kube-probe", **headers})
            status = connection.getresponse().status
        finally:
            connection.close()
        return 200 <= status < 400, f"HTTP probe failed with statuscode: {status}"

    def _port(self, port: int | str) -> int:
        return port if isinstance(port, int) else self.ports[port]
