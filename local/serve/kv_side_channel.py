"""Hands a prompt from a prefill engine to a decode engine, addressed as NIXL's side channel is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

# vLLM's default kv_lease_duration, seconds: a transfer that nobody fetches is dropped.
_LEASE_S = 30


class TransferError(Exception):
    """The remote engine is not there, is another one, or does not hold the request."""


class KvSideChannel:
    """One port for each tensor parallel rank, as NIXL's workers have: two engines on one port cannot both start."""

    def __init__(self, *, engine_id: str, backend: str, host: str, port: int, ranks: int) -> None:
        self._engine_id, self._backend = engine_id, backend
        self._host, self._port, self._ranks = host, port, ranks
        self._held: dict[str, str] = {}
        self._servers: list[asyncio.Server] = []

    async def listen(self) -> None:
        """Take the ports.

        Raises:
            OSError: a port is taken.
        """
        for rank in range(self._ranks):
            self._servers.append(await asyncio.start_server(self._answer, self._host, self._port + rank))

    def close(self) -> None:
        """Give the ports back."""
        for server in self._servers:
            server.close()

    def hold(self, *, request_id: str, prompt: str) -> dict[str, Any]:
        """Keep a prompt for the decode engine; the answer is what NIXL's scheduler puts into kv_transfer_params."""
        self._held[request_id] = prompt
        asyncio.get_running_loop().call_later(_LEASE_S, self._held.pop, request_id, None)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [[]],
            "remote_engine_id": self._engine_id,
            "remote_request_id": request_id,
            "remote_host": self._host,
            "remote_port": self._port,
            "tp_size": self._ranks,
        }

    async def fetch(self, transfer: dict[str, Any]) -> str:
        """The prompt that the engine named in `transfer` holds; it is held no longer.

        Raises:
            TransferError: nobody listens there, it is another engine or backend, or it has no such request.
        """
        question = {
            "engine_id": transfer["remote_engine_id"],
            "backend": self._backend,
            "request_id": transfer["remote_request_id"],
        }
        try:
            reader, writer = await asyncio.open_connection(transfer["remote_host"], transfer["remote_port"])
            try:
                writer.write(json.dumps(question).encode() + b"\n")
                answer = json.loads(await reader.read())
            finally:
                writer.close()
        except (OSError, ValueError) as error:
            raise TransferError(f"{transfer['remote_host']}:{transfer['remote_port']}: {error}") from error
        if "error" in answer:
            raise TransferError(answer["error"])
        return answer["prompt"]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = json.loads(await reader.readline())
        own = {"engine_id": self._engine_id, "backend": self._backend}
        wrong = [f"{key} is {value}, not {question[key]}" for key, value in own.items() if question[key] != value]
        if wrong:
            answer = {"error": "; ".join(wrong)}
        elif question["request_id"] not in self._held:
            answer = {"error": f"{self._engine_id} holds no request {question['request_id']}"}
        else:
            answer = {"prompt": self._held.pop(question["request_id"])}
        # Read to its end on the other side: asyncio's lines have 64 KiB at most, prompts may have more.
        writer.write(json.dumps(answer).encode())
        await writer.drain()
        writer.close()
