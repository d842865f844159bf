"""What one level of concurrency measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmeter.endpoints.base import InvocationResponse
from llmeter.utils import summary_stats_from_list

Quantiles = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLevel:
    """Latencies in seconds with keys p50, p90, p99 (none when no request succeeded); rates per second.

    `inter_token` is a request's mean time from token to token after the first: a server may send several tokens in one
    chunk (Ray Serve LLM gathers 50 ms of them), so the time between chunks says nothing.
    """

    concurrency: int
    requests: int
    errors: Mapping[str, int]
    prompt_tokens: float
    answer_tokens: float
    first_token: Quantiles
    inter_token: Quantiles
    tokens_per_second: float
    requests_per_second: float

    @property
    def failed(self) -> int:
        """Requests without a complete answer."""
        return sum(self.errors.values())

    @classmethod
    def of(cls, *, concurrency: int, expected: int, duration_s: float, responses: Sequence[InvocationResponse]) -> LoadLevel:
        """Summarize; requests that LLMeter gave up on, and so are not among the responses, count as errors."""
        complete = [response for response in responses if response.error is None]
        errors = Counter(_short(response.error) for response in responses if response.error is not None)
        if missing := expected - len(responses):
            errors["no answer in time"] += missing
        answered = [response.num_tokens_output or 0 for response in complete]
        return cls(
            concurrency=concurrency,
            requests=expected,
            errors=dict(errors),
            prompt_tokens=_mean([response.num_tokens_input or 0 for response in complete]),
            answer_tokens=_mean(answered),
            first_token=_quantiles([response.time_to_first_token for response in complete]),
            inter_token=_quantiles([response.time_per_output_token for response in complete]),
            tokens_per_second=sum(answered) / duration_s,
            requests_per_second=len(complete) / duration_s,
        )


def _short(error: str) -> str:
    return " ".join(error.split())[:120]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _quantiles(values: Sequence[float | None]) -> Quantiles:
    """An answer of one token has no time between tokens, one of none no first token."""
    return summary_stats_from_list([value for value in values if value is not None])
