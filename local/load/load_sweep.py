"""One load test: the same work at rising concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llmeter.runner import Runner

from local.load.fresh_prompt_endpoint import FreshPromptEndpoint
from local.load.load_level import LoadLevel
from local.load.prompts import Prompts

REQUEST_TIMEOUT_S = 600.0
"""Ray Serve LLM's own limit for a request (RAY_SERVE_LLM_ROUTER_HTTP_TIMEOUT)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSweep:
    """`concurrency` levels one after another, each client sending `requests_per_client` requests back to back.

    `base_url` ends in /v1. Raises what LLMeter raises for an endpoint that cannot be reached at all; requests that fail
    are counted in the level.
    """

    base_url: str
    model: str
    api_key: str
    concurrency: Sequence[int]
    requests_per_client: int
    prompt_words: int
    answer_tokens: int

    def run(self, *, on_level: Callable[[LoadLevel], None]) -> tuple[LoadLevel, ...]:
        """Measure every level; each is reported when it is done."""
        return asyncio.run(self._run(on_level))

    async def _run(self, on_level: Callable[[LoadLevel], None]) -> tuple[LoadLevel, ...]:
        endpoint = FreshPromptEndpoint(
            base_url=self.base_url,
            model=self.model,
            api_key=self.api_key,
            timeout_s=REQUEST_TIMEOUT_S,
            prompts=Prompts(words=self.prompt_words),
        )
        levels = []
        for clients in self.concurrency:
            # The endpoint puts the messages in.
            result = await Runner(endpoint=endpoint).run(
                payload={"max_tokens": self.answer_tokens},
                clients=clients,
                n_requests=self.requests_per_client,
                timeout=REQUEST_TIMEOUT_S,
            )
            level = LoadLevel.of(
                concurrency=clients,
                expected=clients * self.requests_per_client,
                duration_s=result.total_test_time,
                responses=result.responses,
            )
            on_level(level)
            levels.append(level)
        return tuple(levels)
