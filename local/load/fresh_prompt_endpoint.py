"""LLMeter's streaming OpenAI endpoint, made strict."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from llmeter.endpoints import OpenAICompletionStreamEndpoint
from llmeter.endpoints.base import InvocationResponse


class FreshPromptEndpoint(OpenAICompletionStreamEndpoint):
    """Every request has a prompt of its own, and a stream that breaks off is an error.

    LLMeter gives all clients the same prompts in the same order, which a prefix cache makes look faster than they are.
    """

    def __init__(self, *, base_url: str, model: str, api_key: str, timeout_s: float, prompts: Iterable[str]) -> None:
        # No retries: a request that had to be sent twice is a failed one here.
        super().__init__(model, base_url=base_url, api_key=api_key, timeout=timeout_s, max_retries=0)
        self._prompts: Iterator[str] = iter(prompts)
        self._lock = threading.Lock()

    def prepare_payload(self, payload: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            prompt = next(self._prompts)
        return super().prepare_payload({**payload, "messages": [{"role": "user", "content": prompt}]})

    def process_raw_response(self, raw_response: Any, start_t: float, response: InvocationResponse) -> None:
        super().process_raw_response(raw_response, start_t, response)
        if response.num_tokens_output is None:
            response.error = "the stream ended without its last chunk (no usage)"
