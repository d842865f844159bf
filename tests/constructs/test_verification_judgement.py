"""What readings and answers amount to."""

import dataclasses
from typing import Any

import pytest
from constructs.verification.handler import judgement, metrics, prompts
from constructs.verification.handler.problem import Problem
from hypothesis import given, strategies as st

from tests.constructs.verification_states import NOW, WANTED, application, pod

UCX = dataclasses.replace(WANTED, kv_backend="UCX")
WARN = dataclasses.replace(WANTED, verify="warn")


def worker(name: str = "w1", **changes: Any) -> dict:
    return {"pod": name, "devices": 1, "before": 0, "after": 20_000_000, "backends": ["LIBFABRIC"], **changes}


def evidence(**changes: Any) -> dict:
    return {
        "placement": {"prefill": ["n1"], "decode": ["n2"]},
        "workers": [worker("w1"), worker("w2")],
        "rounds": [{"long prompt": ("a", "a"), "prompt with the same beginning": ("b", "b")}],
        "first_token_s": 0.8371,
        "nixl": {"transfers_before": 3.0, "transfers_after": 7.0, "failed_before": 0.0, "failed_after": 0.0},
        **changes,
    }


def found(wanted=WANTED, **changes: Any) -> list[tuple[str, str]]:
    return [(problem.part, problem.text) for problem in judgement.problems(wanted, evidence(**changes))]


def test_good_evidence_has_no_problem() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ({"prefill": ["n1"], "decode": ["n1", "n2"]}, "Prefill and decode share node n1,"),
        ({"prefill": [], "decode": ["n2"]}, "No running replica of prefill was found"),
        ({"prefill": [], "decode": []}, "No running replica of prefill or decode was found"),
    ],
)
def test_placement(nodes: dict, expected: str) -> None:
    ((part, text),) = found(placement=nodes)
    assert part == "placement"
    assert text.startswith(expected)


@pytest.mark.parametrize("backends", [["UCX"], [], ["LIBFABRIC", "UCX"]])
def test_every_worker_needs_the_backend(backends: list[str]) -> None:
    ((part, text),) = found(workers=[worker("w1"), worker("w2", backends=backends)])
    assert part == "transport"
    assert text == f"NIXL on w2 started {', '.join(backends) or 'no backend'} instead of LIBFABRIC."


@pytest.mark.parametrize(("sent", "flat"), [(0, True), (65_535, True), (65_536, False)])
def test_counters_must_rise(sent: int, flat: bool) -> None:
    problems = found(workers=[worker("w1", before=1000, after=1000 + sent), worker("w2", after=0)])
    assert problems == (
        [("transport", f"The EFA counters are flat: {sent} bytes during a request whose KV cache must cross. It went over TCP.")]
        if flat
        else []
    )


def test_a_worker_without_a_device_is_named() -> None:
    assert found(workers=[worker("w1", devices=0), worker("w2", devices=0)]) == [("transport", "No EFA device in w1, w2.")]


def test_ucx_needs_no_efa() -> None:
    assert found(UCX, workers=[worker(backends=["UCX"], devices=0, after=0)]) == []


def test_a_counter_that_started_anew_counts_nothing() -> None:
    assert judgement.efa_bytes([worker(before=500, after=100), worker(before=1, after=3)]) == 2


@pytest.mark.parametrize(
    ("nixl", "expected"),
    [
        ({"transfers_after": 3.0}, "NIXL reports no transfer during the requests."),
        ({"failed_after": 1.0}, "NIXL reports 1 failed transfers during the requests."),
        ({"failed_before": 2.0, "failed_after": 2.0}, None),
    ],
)
def test_transfers(nixl: dict, expected: str | None) -> None:
    problems = found(nixl={**evidence()["nixl"], **nixl})
    assert problems == ([("transport", expected)] if expected else [])


def answers(first: tuple[str, str], second: tuple[str, str] = ("b", "b")) -> dict:
    return {"long prompt": first, "prompt with the same beginning": second}


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([answers(("a", "x")), answers(("a", "a"))], None),
        ([answers(("a", "x")), answers(("a", "a"), ("b", "y"))], "the long prompt and prompt with the same beginning was"),
        ([answers(("a", "x"))], "in 1 of 1 rounds"),
        ([answers((" ", " "))], "A chat completion came back without a token."),
    ],
)
def test_answers(rounds: list[dict], expected: str | None) -> None:
    problems = found(rounds=rounds)
    assert [part for part, _ in problems] == (["answer"] if expected else [])
    assert not expected or expected in problems[0][1]


def test_warn_lets_the_transport_pass_and_nothing_else() -> None:
    problems = [Problem("transport", "t"), Problem("answer", "a"), Problem("placement", "p")]
    assert judgement.stopping(WANTED, problems) == problems
    assert judgement.stopping(WARN, problems) == problems[1:]


def test_outputs() -> None:
    assert judgement.outputs(WANTED, evidence(), [], now=NOW) == {
        "PrefillNodes": "n1",
        "DecodeNodes": "n2",
        "KvTransferBackend": "LIBFABRIC",
        "EfaBytesPerRequest": "40000000",
        "TimeToFirstToken": "0.84 s",
        "VerifiedAt": "2026-12-02T12:00:00+00:00",
    }
    problems = [Problem("transport", "flat."), Problem("answer", "no")]
    assert judgement.outputs(WARN, evidence(), problems, now=NOW)["KvTransferBackend"] == "LIBFABRIC, NOT CONFIRMED: flat."


def test_outputs_are_the_same_set_unverified() -> None:
    assert set(judgement.unverified_outputs(now=NOW)) == set(judgement.outputs(WANTED, evidence(), [], now=NOW))


def test_placement_reads_rays_replicas_and_kubernetes_nodes() -> None:
    pods = [pod("w1"), pod("w2")]
    assert judgement.placement({"qwen": application()}, pods) == {"prefill": ["node-of-w1"], "decode": ["node-of-w2"]}
    replicas = [{"state": "RUNNING", "node_ip": "10.0.0.9"}, {"state": "STARTING", "node_ip": "ip-of-w1"}, {"state": "RUNNING"}]
    seen = {"qwen": application(Decode__m={"status": "HEALTHY", "replicas": replicas})}
    assert judgement.placement(seen, pods)["decode"] == ["10.0.0.9", "unknown"]


PAGE = """# HELP ray_vllm_nixl_bytes_transferred x
# TYPE ray_vllm_nixl_bytes_transferred histogram
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="a",le="1e+07"} 3.0
ray_vllm_nixl_bytes_transferred_count{ReplicaId="a",model_name="m"} 3.0
ray_vllm_nixl_bytes_transferred_count{ReplicaId="b",model_name="m"} 4.0
ray_vllm_nixl_bytes_transferred_sum{ReplicaId="a",model_name="m"} 1.5e+07
"""


def test_metrics_of_a_recorded_page() -> None:
    assert metrics.nixl(PAGE) == (7.0, 0.0)
    failures = 'ray_vllm_nixl_num_failed_transfers{a="b"} 2.0\nray_vllm_nixl_num_failed_notifications 1.0\n'
    assert metrics.nixl(PAGE + failures) == (7.0, 3.0)
    assert metrics.nixl("ray_vllm_nixl_num_failed_transfers_created 1.7e9\nray_vllm_nixl_num_failed_transfers_total 1.0\n") == (
        0,
        1,
    )
    assert metrics.nixl("ray_vllm_nixl_bytes_transferred_count none\n") == (0.0, 0.0)


@given(st.text(max_size=300))
def test_any_page_is_readable(page: str) -> None:
    transfers, failed = metrics.nixl(page)
    assert transfers + failed is not None


@given(max_model_len=st.integers(1024, 1_000_000), seed=st.text(min_size=1, max_size=8))
def test_prompts_fill_a_block_and_fit_the_model(max_model_len: int, seed: str) -> None:
    long_prompt, same_beginning = prompts.prompts(max_model_len=max_model_len, seed=seed)
    words = len(long_prompt.split())
    assert words > 528
    assert words * 1.3 + prompts.ANSWER_TOKENS < max_model_len
    assert words < 2300
    shared = len([None for one, two in zip(long_prompt.split(), same_beginning.split(), strict=True) if one == two])
    assert shared == words - 1
    assert prompts.prompts(max_model_len=max_model_len, seed=seed + "x")[0] != long_prompt
    assert prompts.prompts(max_model_len=max_model_len, seed=seed) == (long_prompt, same_beginning)
