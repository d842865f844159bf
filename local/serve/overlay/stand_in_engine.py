"""An engine that takes vLLM's place behind Ray Serve LLM, for machines without a GPU.

Everything around it is the real thing: Ray's servers and orchestration, vLLM's request models and argument names,
Ray's NIXL set-up with its engine ids and side-channel ports. The engine itself does no inference: a word is a token,
and the answer repeats the words of the prompt. Two properties make it worth testing against:

* the decode side answers from what it fetched from the prefill side over the side channel that the prefill response
  names, never from its own prompt: a wrong engine id, host or port is an error, not an answer;
* `max_model_len` and `max_num_seqs` hold: longer prompts are refused in vLLM's words, more requests wait.

Environment: STAND_IN_TOKEN_MS, milliseconds a token takes (default 5).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncGenerator
from typing import Any

from ray.llm._internal.serve.core.configs.llm_config import DiskMultiplexConfig, LLMConfig
from ray.llm._internal.serve.core.configs.openai_api_models import (
    ChatCompletionRequest,
    ChatCompletionResponse,
    ChatCompletionStreamResponse,
    CompletionRequest,
    CompletionResponse,
    CompletionStreamResponse,
    ErrorInfo,
    ErrorResponse,
)
from ray.llm._internal.serve.core.engine.protocol import LLMEngine
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.llm._internal.serve.engines.vllm.vllm_engine import _normalize_vllm_engine_kwargs
from vllm import envs
from vllm.config import KVTransferConfig

Request = ChatCompletionRequest | CompletionRequest

_LEASE_S = 30.0  # NixlConnector's default kv_lease_duration
_DEFAULT_ANSWER_TOKENS = 64


class StandInEngine(LLMEngine):
    """See the module. Raises at start what vLLM would raise for a wrong argument name or KV setting."""

    def __init__(self, llm_config: LLMConfig) -> None:
        super().__init__(llm_config)
        self.llm_config = llm_config
        llm_config.setup_engine_backend()
        self._kept: dict[str, str] = {}

    async def start(self) -> None:
        arguments = _normalize_vllm_engine_kwargs(self.llm_config.get_engine_config().get_initialization_kwargs())
        transfer: KVTransferConfig = arguments["kv_transfer_config"]
        self._engine_id = transfer.engine_id
        self._max_model_len: int = arguments["max_model_len"]
        self._running = asyncio.Semaphore(arguments.get("max_num_seqs") or 256)
        self._token_s = float(os.environ.get("STAND_IN_TOKEN_MS", "5")) / 1000
        self._host, self._port = envs.VLLM_NIXL_SIDE_CHANNEL_HOST, envs.VLLM_NIXL_SIDE_CHANNEL_PORT
        self._server = await asyncio.start_server(self._hand_over, host=self._host, port=self._port)
        # vLLM's own line, which `local.serve.engine_address` reads.
        print(f"Initializing NIXL Scheduler {self._engine_id}", flush=True)

    async def check_health(self) -> None:
        if not self._server.is_serving():
            raise RuntimeError("the side channel is closed")

    async def shutdown(self) -> None:
        self._server.close()

    async def reset_prefix_cache(self) -> None:
        """There is none."""

    async def resolve_lora(self, lora_model: DiskMultiplexConfig) -> None:
        raise NotImplementedError("the stand-in engine has no adapters")

    @property
    def routing_stats(self) -> dict[str, Any]:
        return {}

    async def embeddings(self, request: Any, raw_request_info: RawRequestInfo | None = None) -> AsyncGenerator[Any, None]:
        raise NotImplementedError("the stand-in engine has no embeddings")
        yield

    async def transcriptions(self, request: Any, raw_request_info: RawRequestInfo | None = None) -> AsyncGenerator[Any, None]:
        raise NotImplementedError("the stand-in engine has no transcriptions")
        yield

    async def chat(
        self, request: ChatCompletionRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[str | ChatCompletionResponse | ErrorResponse, None]:
        prompt = "\n".join(_text(message.get("content")) for message in request.messages)
        wanted = request.max_completion_tokens or request.max_tokens
        async for chunk in self._answer(request=request, prompt=prompt, wanted=wanted):
            yield chunk

    async def completions(
        self, request: CompletionRequest, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[str | CompletionResponse | ErrorResponse, None]:
        prompt = request.prompt if isinstance(request.prompt, str) else _text(request.prompt)
        async for chunk in self._answer(request=request, prompt=prompt, wanted=request.max_tokens):
            yield chunk

    async def _answer(self, *, request: Request, prompt: str, wanted: int | None) -> AsyncGenerator[Any, None]:
        tokens = len(prompt.split())
        room = self._max_model_len - tokens
        if (wanted is not None and wanted > room) or room < 1:
            yield _too_long(limit=self._max_model_len, prompt=tokens, wanted=wanted or 0)
            return
        parameters = request.kv_transfer_params or {}
        async with self._running:
            if parameters.get("do_remote_prefill"):
                try:
                    prompt = await self._fetch(parameters)
                except (OSError, LookupError) as reason:
                    # kv_load_failure_policy "fail": an error, never an answer from elsewhere.
                    yield _error(
                        message=f"KV transfer from {parameters['remote_engine_id']} failed: {reason!r}",
                        kind="InternalServerError",
                        code=500,
                    )
                    return
            words = list(
                itertools.islice(itertools.cycle(prompt.split() or ["(empty)"]), min(wanted or _DEFAULT_ANSWER_TOKENS, room))
            )
            shape = _ChatShape if isinstance(request, ChatCompletionRequest) else _CompletionShape
            common = {"id": request.request_id, "model": request.model or self.llm_config.model_id}
            if not request.stream:
                await asyncio.sleep(self._token_s * len(words))
                usage = {"prompt_tokens": tokens, "completion_tokens": len(words), "total_tokens": tokens + len(words)}
                yield shape.whole(
                    text=" ".join(words), **common, usage=usage, kv_transfer_params=self._keep(request=request, prompt=prompt)
                )
                return
            yield shape.part(text="", first=True, **common)
            for position, word in enumerate(words):
                await asyncio.sleep(self._token_s)
                yield shape.part(text=word if position == 0 else f" {word}", last=position == len(words) - 1, **common)
            yield "data: [DONE]\n\n"

    def _keep(self, *, request: Request, prompt: str) -> dict[str, Any] | None:
        """What NixlConnector's scheduler returns when a producer finishes; the prompt stands for the KV blocks."""
        if not (request.kv_transfer_params or {}).get("do_remote_decode"):
            return None
        self._kept[request.request_id] = prompt
        asyncio.get_running_loop().call_later(_LEASE_S, self._kept.pop, request.request_id, None)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_engine_id": self._engine_id,
            "remote_request_id": request.request_id,
            "remote_host": self._host,
            "remote_port": self._port,
            "tp_size": self.llm_config.get_engine_config().tensor_parallel_degree,
        }

    async def _fetch(self, parameters: dict[str, Any]) -> str:
        reader, writer = await asyncio.open_connection(parameters["remote_host"], parameters["remote_port"])
        try:
            writer.write(
                json.dumps({"engine": parameters["remote_engine_id"], "request": parameters["remote_request_id"]}).encode() + b"\n"
            )
            await writer.drain()
            answer = json.loads(await reader.read())
        finally:
            writer.close()
        if "refused" in answer:
            raise LookupError(answer["refused"])
        return answer["prompt"]

    async def _hand_over(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        if asked["engine"] != self._engine_id:
            answer = {"refused": f"asked for engine {asked['engine']}, this is {self._engine_id}"}
        elif asked["request"] not in self._kept:
            answer = {"refused": f"request {asked['request']} is not kept here"}
        else:
            answer = {"prompt": self._kept.pop(asked["request"])}
        writer.write(json.dumps(answer).encode())
        writer.close()


class _ChatShape:
    """Chat completions as vLLM answers them."""

    @staticmethod
    def whole(*, text: str, **rest: Any) -> ChatCompletionResponse:
        return ChatCompletionResponse(
            choices=[{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}], **rest
        )

    @staticmethod
    def part(*, text: str, first: bool = False, last: bool = False, **rest: Any) -> str:
        delta = {"role": "assistant", "content": text} if first else {"content": text}
        choice = {"index": 0, "delta": delta, "finish_reason": "length" if last else None}
        return f"data: {ChatCompletionStreamResponse(choices=[choice], **rest).model_dump_json(exclude_unset=True)}\n\n"


class _CompletionShape:
    """Completions as vLLM answers them."""

    @staticmethod
    def whole(*, text: str, **rest: Any) -> CompletionResponse:
        return CompletionResponse(choices=[{"index": 0, "text": text, "finish_reason": "length"}], **rest)

    @staticmethod
    def part(*, text: str, first: bool = False, last: bool = False, **rest: Any) -> str:
        choice = {"index": 0, "text": text, "finish_reason": "length" if last else None}
        return f"data: {CompletionStreamResponse(choices=[choice], **rest).model_dump_json(exclude_unset=True)}\n\n"


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return " ".join(part.get("text", "") if isinstance(part, dict) else str(part) for part in content)


def _too_long(*, limit: int, prompt: int, wanted: int) -> ErrorResponse:
    """vllm/renderers/params.py, TokenizeParams._token_len_check."""
    return _error(
        message=(
            f"This model's maximum context length is {limit} tokens. However, you requested {wanted} output tokens and your prompt "
            f"contains {prompt} input tokens, for a total of {prompt + wanted} tokens. Please reduce the length of the input prompt "
            f"or the number of requested output tokens."
        ),
        kind="BadRequestError",
        code=400,
    )


def _error(*, message: str, kind: str, code: int) -> ErrorResponse:
    return ErrorResponse(error=ErrorInfo(message=message, type=kind, code=code))
