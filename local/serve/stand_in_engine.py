"""Takes the place of vLLM behind Ray Serve LLM where there is no GPU."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

from ray.llm._internal.serve.core.configs.llm_config import LLMConfig
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
from vllm import envs
from vllm.config.kv_transfer import KVTransferConfig

from local.serve.kv_side_channel import KvSideChannel, TransferError

_PREFILL_S_PER_TOKEN = 0.0002
_DECODE_S_PER_TOKEN = 0.02
_MOST_TOKENS = 24
_RECORDED = ("FI_PROVIDER", "VLLM_SSM_CONV_STATE_LAYOUT", "VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT")


class StandInEngine(LLMEngine):
    """Answers with the prompt's own words, which reach the decode side from the prefill side only.

    Real in it: Ray's set-up of the connector (engine id, side-channel host and port), vLLM's engine argument names and
    KVTransferConfig, the request and response models, the roles, the length limit, `max_num_seqs`, one port for each
    rank. Not real: tokens are words, there is no model, no GPU memory and no NIXL.
    """

    def __init__(self, llm_config: LLMConfig) -> None:
        self._config = llm_config

    async def start(self) -> None:
        """As VLLMEngine does: the connector first, then the arguments; then one line for the logs, as NIXL prints it."""
        self._config.setup_engine_backend()
        arguments = self._config.get_engine_config().engine_kwargs
        transfer = KVTransferConfig(**arguments["kv_transfer_config"])
        [backend] = transfer.kv_connector_extra_config["backends"]
        self._is_prefill = transfer.kv_role == "kv_producer"
        self._max_model_len: int = arguments["max_model_len"]
        self._sequences = asyncio.Semaphore(arguments.get("max_num_seqs", 256))
        self._channel = KvSideChannel(
            engine_id=str(transfer.engine_id),
            backend=backend,
            host=envs.VLLM_NIXL_SIDE_CHANNEL_HOST,
            port=envs.VLLM_NIXL_SIDE_CHANNEL_PORT,
            ranks=self._config.get_engine_config().num_devices,
        )
        await self._channel.listen()
        print(f"Initializing NIXL worker {transfer.engine_id}", flush=True)
        facts = {
            "role": transfer.kv_role,
            "max_model_len": self._max_model_len,
            "environment": {name: os.environ.get(name) for name in _RECORDED},
        }
        print(f"Stand-in engine {json.dumps(facts)}", flush=True)

    async def chat(self, request: ChatCompletionRequest, raw_request_info: Any = None) -> AsyncIterator[Any]:
        """Chunks as vLLM's chat serving yields them."""
        prompt = " ".join(_words(message.get("content")) for message in request.messages)
        async for chunk in self._run(request, prompt, request.max_completion_tokens or request.max_tokens, chat=True):
            yield chunk

    async def completions(self, request: CompletionRequest, raw_request_info: Any = None) -> AsyncIterator[Any]:
        """Chunks as vLLM's completion serving yields them."""
        async for chunk in self._run(request, str(request.prompt), request.max_tokens, chat=False):
            yield chunk

    async def _run(self, request: Any, prompt: str, max_tokens: int | None, *, chat: bool) -> AsyncIterator[Any]:
        length = len(prompt.split())
        request.model = request.model or self._config.model_id
        if max_tokens is not None and max_tokens < 1:
            yield _error(f"max_tokens must be at least 1, got {max_tokens}.", type_="BadRequestError", code=400)
            return
        if length + (max_tokens or 1) > self._max_model_len:
            # The wording is vLLM's (vllm/renderers/params.py), shortened.
            yield _error(
                f"This model's maximum context length is {self._max_model_len} tokens. However, you requested "
                f"{max_tokens or 0} output tokens and your prompt contains {length} input tokens.",
                type_="BadRequestError",
                code=400,
            )
            return
        async with self._sequences:
            if self._is_prefill:
                await asyncio.sleep(length * _PREFILL_S_PER_TOKEN)
                transfer = self._channel.hold(request_id=request.request_id, prompt=prompt)
                yield _whole(request, [""], length, chat=chat, finish="length", kv_transfer_params=transfer)
                return
            try:
                received = await self._channel.fetch(request.kv_transfer_params)
            except TransferError as error:
                yield _error(f"KV transfer failed: {error}", type_="InternalServerError", code=500)
                return
            words = [f" {word}" for word in ("You", "said:", *received.split())]
            answer = words[: min(max_tokens or _MOST_TOKENS, _MOST_TOKENS)]
            finish = "stop" if len(answer) == len(words) else "length"
            if not request.stream:
                await asyncio.sleep(len(answer) * _DECODE_S_PER_TOKEN)
                yield _whole(request, answer, length, chat=chat, finish=finish)
                return
            for position, word in enumerate(answer, start=1):
                await asyncio.sleep(_DECODE_S_PER_TOKEN)
                yield _part(request, word, chat=chat, finish=finish if position == len(answer) else None)
            if request.stream_options and request.stream_options.include_usage:
                yield _usage_part(request, length, len(answer), chat=chat)
            yield "data: [DONE]\n\n"

    def routing_stats(self) -> dict[str, Any]:
        return {}

    async def shutdown(self) -> None:
        self._channel.close()

    async def check_health(self) -> None:
        return

    async def resolve_lora(self, disk_lora_model: Any) -> None:
        raise NotImplementedError

    async def embeddings(self, request: Any, raw_request_info: Any = None) -> AsyncIterator[Any]:
        yield _error("This model does not support embeddings", type_="BadRequestError", code=400)

    async def transcriptions(self, request: Any, raw_request_info: Any = None) -> AsyncIterator[Any]:
        yield _error("This model does not support transcriptions", type_="BadRequestError", code=400)

    async def reset_prefix_cache(self) -> None:
        return


def _words(content: Any) -> str:
    """The text of a message, whose content is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def _usage(length: int, answered: int) -> dict[str, int]:
    return {"prompt_tokens": length, "completion_tokens": answered, "total_tokens": length + answered}


def _whole(request: Any, words: list[str], length: int, *, chat: bool, finish: str, **extra: Any) -> Any:
    text = "".join(words).strip()
    common = {"model": request.model, "usage": _usage(length, len(words)), **extra}
    if chat:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        return ChatCompletionResponse(id=f"chatcmpl-{request.request_id}", choices=[choice], **common)
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return CompletionResponse(id=f"cmpl-{request.request_id}", choices=[choice], **common)


def _part(request: Any, word: str, *, chat: bool, finish: str | None) -> str:
    if chat:
        choice: dict[str, Any] = {"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": finish}
        return _event(ChatCompletionStreamResponse(id=f"chatcmpl-{request.request_id}", model=request.model, choices=[choice]))
    choice = {"index": 0, "text": word, "finish_reason": finish}
    return _event(CompletionStreamResponse(id=f"cmpl-{request.request_id}", model=request.model, choices=[choice]))


def _usage_part(request: Any, length: int, answered: int, *, chat: bool) -> str:
    kind, prefix = (ChatCompletionStreamResponse, "chatcmpl") if chat else (CompletionStreamResponse, "cmpl")
    usage = _usage(length, answered)
    return _event(kind(id=f"{prefix}-{request.request_id}", model=request.model, choices=[], usage=usage))


def _event(chunk: Any) -> str:
    return f"data: {chunk.model_dump_json(exclude_none=True)}\n\n"


def _error(message: str, *, type_: str, code: int) -> ErrorResponse:
    return ErrorResponse(error=ErrorInfo(message=message, type=type_, code=code))
