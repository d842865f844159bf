"""Real vLLM engines behind the project's Serve config: the answers are right, and their KV caches really move."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from local.real_engine.tiny_model import Kind
from local.serve.replica_row import ReplicaRow
from tests.vllm.running_vllm import RunningVllm, prompts, run_single_engine, serve_config
from tests.waiting import until

# The hybrid last: the tests below go on with it, and every change of model costs a start of two engines.
KINDS: tuple[Kind, ...] = ("dense", "hybrid")
SHORT, LONG = 12, 641


def expected(kind: Kind, model: Path, *, tokens: int, count: int) -> list[list[int]]:
    """What one engine answers that computes a prompt as the disaggregated pair does: all but the last token, then the last."""
    engine = serve_config(kind=kind, model=model)["applications"][0]["args"]["prefill_config"]["engine_kwargs"]
    engine = {name: value for name, value in engine.items() if name != "kv_transfer_config"}
    engine |= {"model": str(model), "max_num_batched_tokens": tokens - 1, "max_num_seqs": 1}
    answers, output = run_single_engine(engine=engine, environment=dict(os.environ), questions=prompts(count=count, tokens=tokens))
    assert answers is not None, output[-3000:]
    return answers


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_equal_one_engines_and_every_prompt_moves_its_kv_cache(
    running: RunningVllm, models: dict[Kind, Path], kind: Kind
) -> None:
    running.deploy(kind)
    before = running.transfers()
    for tokens, count in ((SHORT, 4), (LONG, 8)):
        answers = running.answers(prompts(count=count, tokens=tokens))
        assert answers == expected(kind, models[kind], tokens=tokens, count=count), f"{kind}, {tokens} tokens"
    # Metrics are exported every few seconds.
    until(lambda: running.transfers() - before >= 12, "every prompt's KV cache moved", 30)
    assert running.transfers() - before == 12


def test_hybrid_answers_a_repeated_prompt_the_same(running: RunningVllm) -> None:
    running.deploy("hybrid")
    questions = prompts(count=6, tokens=LONG, seed=1)
    assert running.answers(questions) == running.answers(questions)


BAD_REQUESTS: dict[str, tuple[dict[str, Any] | list[Any], int]] = {
    "prompt too long": ({"model": "tiny", "prompt": [9] * 3000}, 400),
    "answer too long": ({"model": "tiny", "prompt": [9], "max_tokens": 100_000}, 400),
    "negative max_tokens": ({"model": "tiny", "prompt": [9], "max_tokens": -1}, 400),
    "temperature below 0": ({"model": "tiny", "prompt": [9], "temperature": -1}, 400),
    "no prompt": ({"model": "tiny"}, 400),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_bad_request_is_answered_in_openais_error_shape(running: RunningVllm, name: str) -> None:
    running.deploy("hybrid")
    body, status = BAD_REQUESTS[name]
    answer = httpx.post(f"{running.url}/v1/completions", json=body, timeout=60)
    assert answer.status_code == status, answer.text
    assert {"message", "type", "code"} <= answer.json()["error"].keys()
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("phase", ["Prefill", "Decode"])
def test_killed_engine_comes_back(running: RunningVllm, phase: str) -> None:
    running.deploy("hybrid")
    questions = prompts(count=3, tokens=LONG, seed=2)
    before = running.answers(questions)
    [killed] = [row for row in running.replicas() if row.deployment.startswith(phase)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        question = prompts(count=1, tokens=200)[0]
        under_load = [pool.submit(_status, running.url, question) for _ in range(8)]
        os.kill(killed.pid, signal.SIGKILL)
        statuses = [request.result() for request in under_load]
    # What the dead engine held is lost and says so; nothing hangs and nothing is answered wrongly.
    assert set(statuses) <= {200, 500}, statuses

    def replaced() -> ReplicaRow | None:
        rows = [row for row in running.replicas() if row.deployment == killed.deployment]
        return rows[0] if len(rows) == 1 and rows[0].pid != killed.pid and rows[0].state == "RUNNING" else None

    until(replaced, "another replica runs", 240)
    running.wait()
    replacement = until(replaced, "it still does")
    assert replacement.engine_id != killed.engine_id
    assert running.answers(questions) == before


def _status(url: str, question: list[int]) -> int:
    body = {"model": "tiny", "prompt": question, "max_tokens": 64, "temperature": 0, "ignore_eos": True}
    return httpx.post(f"{url}/v1/completions", json=body, timeout=240).status_code


def test_hybrid_with_prefix_caching_dies_of_a_repeated_prompt(running: RunningVllm) -> None:
    """Why `enable_prefix_caching` is written out; vLLM's own defaults decide otherwise from platform to platform."""
    # The prefill engine computes all but the last token: here as many as whole blocks of the tiny model.
    question = prompts(count=1, tokens=129, seed=3)[0]
    running.deploy("hybrid")
    assert [_status(running.url, question) for _ in range(2)] == [200, 200]
    running.deploy("hybrid", enable_prefix_caching=True)
    assert [_status(running.url, question) for _ in range(2)] == [200, 500]
    until(lambda: "assert num_new_tokens > 0" in running.output(), "the engine says why")
