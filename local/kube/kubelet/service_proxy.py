"""Cluster addresses of services: connections to them go on to a ready pod."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from local.kube.kubelet.pod_network import add_local_address

_log = logging.getLogger("service-proxy")

Endpoints = Callable[[], Sequence[tuple[str, int]]]


@dataclass(slots=True)
class ServiceProxy:
    """Takes kube-proxy's place, which needs the kernel's packet filter: TCP only, in this process, endpoints in turn."""

    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop, init=False)
    _open: set[tuple[str, int]] = field(default_factory=set, init=False)

    def start(self) -> None:
        """Until this process ends."""
        threading.Thread(target=self._loop.run_forever, daemon=True, name="service-proxy").start()

    def serve(self, address: str, port: int, endpoints: Endpoints) -> None:
        """Listen from now on; `endpoints` is asked at every connection. An address and port once served stays so."""
        if (address, port) in self._open:
            return
        self._open.add((address, port))
        add_local_address(address)
        turn = itertools.count()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            targets = endpoints()
            with contextlib.suppress(OSError):
                if targets:
                    await _forward(reader, writer, targets[next(turn) % len(targets)])
            writer.close()

        server = asyncio.start_server(connected, address, port)
        asyncio.run_coroutine_threadsafe(server, self._loop).result()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int]) -> None:
    onward_reader, onward_writer = await asyncio.open_connection(*target)
    try:
        await asyncio.gather(_copy(reader, onward_writer), _copy(onward_reader, writer))
    finally:
        onward_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()
