"""The three requests that the README shows, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiClient:
    """Every method raises httpx.HTTPStatusError on a status of 400 or more."""

    url: str

    def models(self) -> list[str]:
        """GET /v1/models: the ids."""
        return [model["id"] for model in self._answer(httpx.get(f"{self.url}/v1/models", timeout=_TIMEOUT_S))["data"]]

    def chat(self, *, model: str, text: str, max_tokens: int) -> str:
        """POST /v1/chat/completions: the whole answer."""
        body = _body(model=model, text=text, max_tokens=max_tokens)
        answer = self._answer(httpx.post(f"{self.url}/v1/chat/completions", json=body, timeout=_TIMEOUT_S))
        return answer["choices"][0]["message"]["content"]

    def stream(self, *, model: str, text: str, max_tokens: int) -> Iterator[str]:
        """The same, streamed: the pieces as they come. The stream has ended with [DONE] when the iterator ends.

        Raises:
            EOFError: the stream ended without [DONE].
        """
        body = _body(model=model, text=text, max_tokens=max_tokens) | {"stream": True}
        with httpx.stream("POST", f"{self.url}/v1/chat/completions", json=body, timeout=_TIMEOUT_S) as answer:
            if answer.is_error:
                answer.read()
                answer.raise_for_status()
            for line in answer.iter_lines():
                if line == "data: [DONE]":
                    return
                if line.startswith("data: "):
                    yield from (choice["delta"].get("content") or "" for choice in json.loads(line[6:])["choices"])
        raise EOFError("the stream ended without [DONE]")

    @staticmethod
    def _answer(answer: httpx.Response) -> dict[str, Any]:
        answer.raise_for_status()
        return answer.json()


def _body(*, model: str, text: str, max_tokens: int) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens}
