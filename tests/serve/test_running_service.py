"""What the running application guarantees: placement, replacement, changes in place, load."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from constructs.verification.handler import decisions
from running_service import RunningService

from charts.digest import serve_digest
from local.serve.simulated_node import SimulatedNode
from tests.waiting import until


def placed(running: RunningService) -> dict[str, list[str]]:
    return {phase: [row.group for row in running.rows(phase.capitalize())] for phase in ("prefill", "decode")}


def test_phases_are_on_nodes_of_their_own(running: RunningService) -> None:
    assert placed(running) == {"prefill": ["prefill"], "decode": ["decode"]}
    [prefill], [decode] = running.rows("Prefill"), running.rows("Decode")
    assert prefill.address != decode.address
    assert prefill.engine_id
    assert prefill.engine_id != decode.engine_id
    assert prefill.address in prefill.engine_id, "the side channel's address is the node's own"


def test_other_clusters_of_the_machine_stay_the_newest(running: RunningService, temporary: Path) -> None:
    assert not (temporary / "ray").exists(), "Ray has noted this cluster as the one that a bare ray.init() finds"


def test_model_is_listed_and_answers(running: RunningService) -> None:
    assert running.client.models() == ["qwen3.5-9b"]
    assert running.ask("a b c") == "You said: a b c"


def test_ray_reports_the_configuration_that_the_verification_waits_for(running: RunningService) -> None:
    """The verification recognizes its configuration by Ray's own copy of it; a rewritten copy would be waited for in vain."""
    reported = decisions.serve_digest(running.api.details()["applications"])
    assert reported == serve_digest(running.service.serve_config)
    assert reported != serve_digest(running.changed(max_model_len=8192))


def test_200_concurrent_streams_complete(running: RunningService) -> None:
    def stream(number: int) -> str:
        return "".join(running.client.stream(model=running.model, text=f"stream {number}", max_tokens=24))

    with ThreadPoolExecutor(200) as pool:
        assert list(pool.map(stream, range(200))) == [f" You said: stream {number}" for number in range(200)]


@pytest.mark.parametrize("phase", ["Prefill", "Decode"])
def test_a_killed_replica_is_replaced_and_requests_go_on(running: RunningService, phase: str) -> None:
    [before] = running.rows(phase)
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: [row.replica for row in running.rows(phase)] not in ([], [before.replica]), "another replica runs")
    question = {"model": running.model, "messages": [{"role": "user", "content": "x"}]}
    until(lambda: running.post(question).status_code == 200, "it answers")
    [after] = running.rows(phase)
    assert after.group == before.group
    assert after.engine_id != before.engine_id, "a stale engine id would point peers at the dead engine"
    with running.under_load() as tally:
        until(lambda: tally.answered >= 10, "10 answers")
    assert tally.failures == []


def test_a_change_is_applied_in_place_and_loses_no_request(running: RunningService) -> None:
    long_prompt = {"model": running.model, "messages": [{"role": "user", "content": "word " * 5000}], "max_tokens": 4}
    assert running.post(long_prompt).status_code == 400
    nodes = set(running.cluster.groups())
    with running.under_load() as tally:
        until(lambda: tally.answered >= 5, "5 answers")
        running.apply(running.changed(max_model_len=8192))
        settled = tally.answered
        until(lambda: tally.answered >= settled + 5, "5 more answers")
    assert tally.failures == []
    assert running.post(long_prompt).status_code == 200
    assert set(running.cluster.groups()) == nodes
    running.apply(running.service.serve_config)


@pytest.mark.parametrize(("prefill", "decode"), [(2, 1), (1, 2)])
def test_more_replicas_on_more_nodes(running: RunningService, prefill: int, decode: int) -> None:
    group = "prefill" if prefill == 2 else "decode"
    [like] = [node for node in running.service.nodes if node.group == group]
    node = running.cluster.add(SimulatedNode(group=group, cpus=like.cpus, gpus=like.gpus, resources=like.resources))
    try:
        running.apply(running.changed(prefill=prefill, decode=decode))
        assert placed(running) == {"prefill": ["prefill"] * prefill, "decode": ["decode"] * decode}
        assert len({row.engine_id for row in (*running.rows("Prefill"), *running.rows("Decode"))}) == 3
        with running.under_load() as tally:
            until(lambda: tally.answered >= 20, "20 answers")
        assert tally.failures == []
    finally:
        running.apply(running.service.serve_config)
        running.cluster.remove(node)
