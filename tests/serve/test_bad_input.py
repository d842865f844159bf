"""What Ray Serve LLM 2.58 answers to input that is wrong. The README lists these; a change of library shows here."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from running_service import RunningService

MESSAGES = [{"role": "user", "content": "hello"}]


def openai_error(answer: httpx.Response) -> dict[str, Any]:
    error = answer.json()["error"]
    assert {"message", "type", "code"} <= set(error)
    return error


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        pytest.param(b"{", 400, "JSON", id="malformed JSON"),
        pytest.param(b"", 400, "", id="empty body"),
        pytest.param({"model": "qwen3.5-9b"}, 400, "messages", id="missing field"),
        pytest.param({"model": "qwen3.5-9b", "messages": MESSAGES, "temperature": "warm"}, 400, "temperature", id="wrong type"),
        pytest.param(
            {"model": "qwen3.5-9b", "messages": [{"role": "user", "content": "word " * 5000}]}, 400, "4096", id="too long"
        ),
    ],
)
def test_answers_in_the_shape_of_openai(running: RunningService, body: Any, status: int, words: str) -> None:
    answer = running.post(body)
    assert answer.status_code == status, answer.text[:500]
    error = openai_error(answer)
    assert words in error["message"]
    assert "Traceback" not in answer.text


def test_unknown_model_is_a_plain_404(running: RunningService) -> None:
    """Not OpenAI's shape: Ray Serve LLM lets FastAPI answer."""
    answer = running.post({"model": "gpt-5", "messages": MESSAGES})
    assert answer.status_code == 404
    assert "gpt-5" in answer.json()["detail"]
    assert "Traceback" not in answer.text


def test_a_huge_body_is_refused_for_its_length_and_the_service_lives(running: RunningService) -> None:
    answer = running.post({"model": running.model, "messages": [{"role": "user", "content": "word " * 2_000_000}]})
    assert answer.status_code == 400
    openai_error(answer)
    assert running.ask("alive") == " You said: alive"


def test_unknown_paths(running: RunningService) -> None:
    assert running.post({}, path="/v1/nothing").status_code == 404
    assert httpx.get(f"{running.client.url}/-/healthz").text == "success"
