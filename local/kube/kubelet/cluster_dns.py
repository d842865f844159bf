"""A name server for the names of services and of pods behind headless services."""

from __future__ import annotations

import ipaddress
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ADDRESS = "10.100.0.10"
"""EKS gives its DNS service this address in a cluster of the range 10.100.0.0/16."""

DOMAIN = "cluster.local"
_A, _IN = 1, 1
_TTL_SECONDS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDns:
    """Answers over UDP on `address`:53; `resolve` gives the addresses of (service, namespace), None if there is none.

    Other names do not exist: there is no network outside. AAAA of a name that exists is empty.
    """

    resolve: Callable[[str, str], Sequence[str] | None]
    address: str = ADDRESS

    def start(self) -> None:
        """Until this process ends."""
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind((self.address, 53))
        threading.Thread(target=self._serve, args=(server,), daemon=True, name="dns").start()

    def _serve(self, server: socket.socket) -> None:
        while True:
            question, client = server.recvfrom(512)
            try:
                answer = self.answer(question)
            except (struct.error, IndexError, UnicodeDecodeError):
                continue
            server.sendto(answer, client)

    def answer(self, question: bytes) -> bytes:
        """The response to one query."""
        number, flags, _, _, _, _ = struct.unpack_from(">6H", question)
        labels, position = [], 12
        while question[position]:
            length = question[position]
            labels.append(question[position + 1 : position + 1 + length].decode("ascii").lower())
            position += length + 1
        kind, _ = struct.unpack_from(">2H", question, position + 1)
        addresses = self._addresses(labels)
        records = addresses if addresses and kind == _A else []
        name = question[12 : position + 5]
        # Response, authoritative, recursion as asked; 3: no such name.
        header = struct.pack(">6H", number, 0x8400 | (flags & 0x0100) | (3 if addresses is None else 0), 1, len(records), 0, 0)
        body = b"".join(
            struct.pack(">3HIH", 0xC00C, _A, _IN, _TTL_SECONDS, 4) + ipaddress.IPv4Address(address).packed for address in records
        )
        return header + name + body

    def _addresses(self, labels: list[str]) -> Sequence[str] | None:
        domain = DOMAIN.split(".")
        if len(labels) != 3 + len(domain) or labels[2:] != ["svc", *domain]:
            return None
        return self.resolve(labels[0], labels[1])
