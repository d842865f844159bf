"""The verification and the teardown as CloudFormation sees them, over a simulated cluster and its faults."""

import json
from datetime import timedelta
from typing import Any

import pytest
from constructs.verification.handler import evidence, index
from constructs.verification.handler.cluster_error import ClusterError
from constructs.verification.handler.kubernetes_api import KubernetesApi
from constructs.verification.handler.text import LIMIT
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.constructs.test_verification_decisions import FAULTY, NOT_FOUND, broken
from tests.constructs.verification_cluster import FOREVER, Cluster
from tests.constructs.verification_states import NOW, PROPERTIES, application, pod, state, unschedulable, waiting, warning


def event(request: str = "Create", kind: str = "Verification", **properties: str) -> dict:
    return {
        "RequestType": request,
        "ResourceType": f"Custom::{kind}",
        "PhysicalResourceId": kind,
        "ResourceProperties": {**PROPERTIES, **properties},
        "Data": {"StartedAt": NOW.isoformat()},
    }


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict:
    time = {"now": NOW}
    monkeypatch.setattr(index, "now", lambda: time["now"])
    monkeypatch.setattr(evidence.collect, "__kwdefaults__", {"sleep": lambda seconds: None})
    monkeypatch.setenv("AWS_REGION", "sa-east-1")
    return time


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, clock: dict):
    def given_cluster(cluster: Any) -> Any:
        def of_cluster(name: str, *, region: str) -> Any:
            assert (name, region) == ("ray-llm-multinode", "sa-east-1")
            if isinstance(cluster, Exception):
                raise cluster
            return cluster

        monkeypatch.setattr(KubernetesApi, "of_cluster", of_cluster)
        return cluster

    return given_cluster


def failure(**arguments: Any) -> str:
    with pytest.raises(index.VerificationError) as caught:
        index.is_complete(event(**arguments), None)
    assert len(str(caught.value)) <= LIMIT
    return str(caught.value)


def test_events_start_the_clock_and_keep_the_physical_id(clock) -> None:
    created = index.on_event({"RequestType": "Create", "ResourceType": "Custom::Verification"}, None)
    assert created == {"PhysicalResourceId": "Verification", "Data": {"StartedAt": NOW.isoformat()}}
    for request in ("Update", "Delete"):
        assert index.on_event({**event(request), "PhysicalResourceId": "kept"}, None)["PhysicalResourceId"] == "kept"


def test_a_good_service_is_verified_and_a_second_poll_agrees(use) -> None:
    cluster = use(Cluster())
    complete = index.is_complete(event(), None)
    assert complete["IsComplete"] is True
    assert complete["Data"] == {
        "PrefillNodes": "node-of-w1",
        "DecodeNodes": "node-of-w2",
        "KvTransferBackend": "LIBFABRIC",
        "EfaBytesPerRequest": "34000000",
        "TimeToFirstToken": complete["Data"]["TimeToFirstToken"],
        "VerifiedAt": "2026-12-02T12:00:00+00:00",
    }
    assert float(complete["Data"]["TimeToFirstToken"].removesuffix(" s")) >= 0
    assert len(cluster.chats) == 4
    assert {(chat["temperature"], chat["max_tokens"], chat["model"]) for chat in cluster.chats} == {(0, 24, "qwen3.5-9b")}
    prompts = [chat["messages"][0]["content"] for chat in cluster.chats]
    assert prompts[0] == prompts[2] != prompts[1] == prompts[3]
    again = index.is_complete(event(), None)
    assert {**again["Data"], "TimeToFirstToken": ""} == {**complete["Data"], "TimeToFirstToken": ""}
    assert cluster.chats[4]["messages"] != cluster.chats[0]["messages"], "no cache has seen the second poll's prompts"
    assert cluster.deleted == []


FAULTS = {
    "bad image tag": (
        {"pods": [pod("h", "head", containerStatuses=[waiting("ErrImagePull", NOT_FOUND)]), pod("w1"), pod("w2")]},
        "Pod h cannot pull registry/ray:tag (ErrImagePull)",
    ),
    "no EFA, pending": (
        {"pods": [pod("h", "head"), unschedulable("w1", since=200, message="2 Insufficient vpc.amazonaws.com/efa.")]},
        "Pod w1 fits no node: 2 Insufficient vpc.amazonaws.com/efa.",
    ),
    "spec refused by KubeRay": (
        {"pods": [], "applications": None, "events": [warning("InvalidRayServiceSpec", "The RayService spec is invalid", seen=5)]},
        "KubeRay refuses the RayService: The RayService spec is invalid",
    ),
    "crash loop": (
        {
            "pods": [pod("h", "head"), pod("w1", containerStatuses=[waiting("CrashLoopBackOff", restartCount=4)])],
            "log": "ImportError: hf_abcdefghijk is no token",
        },
        "Container ray-worker of pod w1 keeps crashing (CrashLoopBackOff). Its last lines: ImportError: [removed] is no token",
    ),
    "deploy failed": (
        {"applications": {"qwen": application("DEPLOY_FAILED", "RuntimeError: no")}},
        "Application qwen is DEPLOY_FAILED. Ray says: RuntimeError: no",
    ),
    "both phases on one node": (
        {"pods": [pod("h", "head"), pod("w1"), {**pod("w2"), "spec": {"nodeName": "node-of-w1"}}]},
        "Prefill and decode share node node-of-w1",
    ),
}


@pytest.mark.parametrize(("changes", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_fault_fails_at_the_first_look_with_its_cause(use, changes: dict, expected: str) -> None:
    use(Cluster(**changes))
    assert failure().startswith(expected)


TRANSPORT = {
    "UCX instead of LIBFABRIC": ({"backends": ["UCX"]}, "NIXL on w1 started UCX instead of LIBFABRIC."),
    "counters flat": ({"bytes_per_chat": 0}, "The EFA counters are flat: 0 bytes"),
    "no device": ({"devices": False}, "No EFA device in w1, w2."),
    "no transfer": ({"transfers_per_chat": 0}, "NIXL reports no transfer"),
    "failed transfers": ({"failed_per_chat": 1}, "NIXL reports 4 failed transfers"),
}


@pytest.mark.parametrize(("changes", "expected"), TRANSPORT.values(), ids=TRANSPORT)
def test_a_transport_fault_fails_strictly_and_is_an_output_with_warn(use, changes: dict, expected: str) -> None:
    cluster = use(Cluster())
    vars(cluster).update(changes)
    assert failure().startswith(expected)
    complete = index.is_complete(event(Verify="warn"), None)
    assert complete["IsComplete"] is True
    assert f"LIBFABRIC, NOT CONFIRMED: {expected}" in complete["Data"]["KvTransferBackend"]
    assert index.is_complete(event(Verify="off"), None)["Data"]["KvTransferBackend"] == "not verified (VERIFY=off)"


def test_off_asks_the_endpoint_nothing(use) -> None:
    cluster = use(Cluster())
    index.is_complete(event(Verify="off"), None)
    assert cluster.chats == []


@pytest.mark.parametrize("verify", ["strict", "warn"])
def test_wrong_tokens_fail_whatever_the_transport(use, verify: str) -> None:
    cluster = use(Cluster())
    cluster.answer = lambda prompt, number: f"answer {number}"
    assert "a reused KV cache gives wrong tokens" in failure(Verify=verify)
    assert len(cluster.chats) == 8, "a second round with fresh prompts"


def test_one_differing_answer_is_looked_at_again(use) -> None:
    cluster = use(Cluster())
    cluster.answer = lambda prompt, number: "other" if number == 3 else "same"
    assert index.is_complete(event(), None)["IsComplete"] is True
    assert len(cluster.chats) == 8


def test_no_token_is_a_failure(use) -> None:
    use(Cluster()).answer = lambda prompt, number: ""
    assert failure() == "A chat completion came back without a token."


def test_reasoning_counts_as_an_answer(use) -> None:
    use(Cluster()).events = lambda prompt: [
        'data: {"choices": [{"delta": {"reasoning_content": "hm"}}]}',
        "data: no json",
        ": ping",
    ]
    assert index.is_complete(event(), None)["IsComplete"] is True


@pytest.mark.parametrize(("status", "chats"), [(400, 1), (404, 1), (500, 2), (503, 2)])
def test_an_endpoint_that_refuses_is_a_failure(use, status: int, chats: int) -> None:
    cluster = use(Cluster())
    cluster.fails = {"/v1/chat/completions": (status, FOREVER)}
    assert failure().startswith("The endpoint answers no chat completion: X /api/v1/namespaces/inference/services/")
    assert cluster.fails["/v1/chat/completions"][1] == FOREVER - chats


def test_an_error_within_the_stream_is_a_failure(use) -> None:
    use(Cluster()).events = lambda prompt: ['data: {"error": {"message": "engine died"}}']
    assert failure() == "The endpoint answers no chat completion: the chat completion ended with an error: engine died"


def test_an_endpoint_that_fails_once_is_asked_again(use) -> None:
    use(Cluster()).fails = {"/v1/chat/completions": (503, 1)}
    assert index.is_complete(event(), None)["IsComplete"] is True


@pytest.mark.parametrize("status", [401, 403, 429, 0])
def test_the_api_servers_own_refusal_is_waited_for(use, status: int) -> None:
    use(Cluster()).fails = {"/v1/chat/completions": (status, FOREVER)}
    assert index.is_complete(event(), None) == {"IsComplete": False}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, '{"kind":"Status","apiVersion":"v1","message":"services \\"ray-llm-serve-svc\\" not found"}'),
        (503, '{"kind":"Status","apiVersion":"v1","message":"no endpoints available for service"}'),
        (502, "error trying to reach service: dial tcp 10.0.0.1:8000: connect: connection refused"),
    ],
)
def test_an_endpoint_that_the_api_server_does_not_reach_is_waited_for(use, status: int, said: str) -> None:
    cluster = use(Cluster())

    def not_reached(prompt: str) -> list[str]:
        raise ClusterError(f"POST: {said}", status=status)

    cluster.events = not_reached
    assert index.is_complete(event(), None) == {"IsComplete": False}


def test_a_completion_without_end_is_cut(use, monkeypatch) -> None:
    from constructs.verification.handler import chat

    ticks = iter(range(0, 10**6, 40))
    monkeypatch.setattr(chat.chat, "__kwdefaults__", {"clock": lambda: next(ticks)})
    use(Cluster())
    assert index.is_complete(event(), None) == {"IsComplete": False}


def test_metrics_that_come_late_are_waited_for(use) -> None:
    cluster = use(Cluster())
    pages = []
    plain = cluster.text

    def text(path: str) -> str:
        pages.append(path)
        return plain(path) if len(pages) > 10 else ""

    cluster.text = text
    assert index.is_complete(event(), None)["IsComplete"] is True
    assert len(pages) > 10


WAITS: dict[str, tuple[dict[str, Any], str]] = {
    "no service": ({"service": None}, "the RayService ray-llm to exist"),
    "no head": ({"pods": [], "applications": None}, "Ray's head to answer (pods: none)"),
    "dashboard down": ({"applications": None}, "Ray's head to answer (pods: 3 Running)"),
    "deploying": ({"applications": {"qwen": application("DEPLOYING")}}, "application qwen is DEPLOYING"),
    "warned": (
        {"applications": None, "events": [warning("FailedToCreateRayCluster", "exceeded quota", seen=-3220)]},
        "Ray's head to answer (pods: 3 Running); KubeRay's last warning, {ago} s ago: FailedToCreateRayCluster: exceeded quota",
    ),
}


@pytest.mark.parametrize(("changes", "missing"), WAITS.values(), ids=WAITS)
def test_a_wait_that_runs_out_says_what_it_waited_for(use, clock, capsys, changes: dict, missing: str) -> None:
    use(Cluster(**changes))
    clock["now"] = NOW + timedelta(minutes=54)
    assert index.is_complete(event(), None) == {"IsComplete": False}
    assert json.loads(capsys.readouterr().out) == {"waiting for": missing.format(ago=20)}
    clock["now"] += timedelta(seconds=1)
    assert failure() == f"After 54 minutes still waiting for {missing.format(ago=21)}."


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (ClusterError("EKS does not describe the cluster: ThrottlingException"), "ThrottlingException"),
        (ClusterError("GET /x: URLError"), "GET /x: URLError"),
    ],
)
def test_a_silent_cluster_is_waited_for_and_named(use, clock, cluster, expected: str) -> None:
    use(cluster)
    assert index.is_complete(event(), None) == {"IsComplete": False}
    clock["now"] += timedelta(hours=1)
    assert expected in failure()


@pytest.mark.parametrize("part", ["rayservices", "/events?", ":8265", "labelSelector", ":9402", ":8080"])
@pytest.mark.parametrize("status", [401, 403, 500])
def test_no_answer_from_any_part_is_waited_for(use, part: str, status: int) -> None:
    use(Cluster()).fails = {part: (status, FOREVER)}
    assert index.is_complete(event(), None) == {"IsComplete": False}


def test_a_crash_whose_log_is_gone_is_still_a_crash(use) -> None:
    cluster = use(Cluster(**FAULTS["crash loop"][0]))
    cluster.fails = {"/log?": (404, FOREVER)}
    assert failure() == "Container ray-worker of pod w1 keeps crashing (CrashLoopBackOff)."


def test_an_outdated_ray_cluster_is_deleted_and_its_replacement_verified(use) -> None:
    """KubeRay ignores the change (upgradeStrategy None); without its Ray cluster it makes a new one."""
    cluster = use(Cluster(pods=[pod("h", "head", digest="before"), pod("w1", digest="before"), pod("w2", digest="before")]))
    for _ in range(2):
        assert index.is_complete(event("Update"), None) == {"IsComplete": False}
    path = "/apis/ray.io/v1/namespaces/inference/rayclusters/ray-llm-abcde"
    assert cluster.deleted == [path, path], "deleting again what is being deleted does no harm"
    assert cluster.chats == []
    cluster.state = state(pods=[pod("h0", "head", digest="before", leaving=True), *state()["pods"]])
    assert index.is_complete(event("Update"), None)["IsComplete"] is True
    assert len(cluster.deleted) == 2


def test_ray_clusters_of_others_are_left_alone(use) -> None:
    """Somebody's own cluster in the namespace: no digest, crashing, and none of this service's business."""
    others = [
        pod(name, cluster=name, digest="", containerStatuses=[waiting("CrashLoopBackOff", restartCount=9)])
        for name in ("my-job-raycluster-x1y2z", "ray-llm-old-abcde", "other")
    ]
    cluster = use(Cluster(pods=[pod("h", "head"), pod("w1"), pod("w2"), *others]))
    assert index.is_complete(event(), None)["IsComplete"]
    assert not cluster.deleted
    assert index.is_complete(event("Delete", "RayServiceTeardown"), None) == {"IsComplete": False}
    use(Cluster(pods=others))
    assert index.is_complete(event("Delete", "RayServiceTeardown"), None) == {"IsComplete": True}


def test_an_outdated_ray_cluster_is_replaced_without_verification_too(use) -> None:
    cluster = use(Cluster(pods=[pod("h", "head", digest="before")]))
    assert index.is_complete(event("Update", Verify="off"), None) == {"IsComplete": False}
    assert len(cluster.deleted) == 1


def test_a_delete_that_the_cluster_refuses_is_named(use, clock) -> None:
    use(Cluster(pods=[pod("h", "head", digest="before")])).fails = {"rayclusters": (403, FOREVER)}
    assert index.is_complete(event("Update"), None) == {"IsComplete": False}
    clock["now"] += timedelta(hours=1)
    assert "rayclusters/ray-llm-abcde: 403" in failure(request="Update")


@pytest.mark.parametrize(
    ("kind", "request_type"), [("Verification", "Delete"), ("RayServiceTeardown", "Create"), ("RayServiceTeardown", "Update")]
)
def test_what_has_nothing_to_do_asks_nothing(use, kind: str, request_type: str) -> None:
    use(AssertionError("asked the cluster"))
    assert index.is_complete(event(request_type, kind), None) == {"IsComplete": True}


def teardown() -> dict:
    return index.is_complete(event("Delete", "RayServiceTeardown"), None)


def test_teardown_waits_for_pods_then_ends(use, capsys) -> None:
    cluster = use(Cluster(pods=[pod("w1", leaving=True)]))
    assert teardown() == {"IsComplete": False}
    assert json.loads(capsys.readouterr().out) == {"still there": "pods w1"}
    cluster.state["pods"] = []
    assert teardown() == {"IsComplete": True}


@pytest.mark.parametrize(
    "cluster",
    [Cluster(pods=[pod("w1")]), ClusterError("EKS does not describe the cluster: X"), ClusterError("GET: 403", status=403)],
)
def test_teardown_lets_the_stack_go_after_ten_minutes_and_says_what_may_be_left(use, clock, capsys, cluster) -> None:
    use(cluster)
    clock["now"] += timedelta(minutes=10)
    assert teardown() == {"IsComplete": False}
    clock["now"] += timedelta(seconds=1)
    assert teardown() == {"IsComplete": True}
    assert "may be left; `make leftovers` lists what survives" in capsys.readouterr().out


def test_teardown_of_a_cluster_that_is_gone_is_complete(use) -> None:
    use(ClusterError("no cluster", status=404))
    assert teardown() == {"IsComplete": True}


def test_nothing_secret_and_no_prompt_is_logged(use, capsys) -> None:
    cluster = use(Cluster())
    index.is_complete(event(), None)
    cluster.state["applications"] = {"qwen": application("DEPLOYING", Decode__m={"status": "token=abcdef hf_abcdefghi"})}
    index.is_complete(event(), None)
    printed = capsys.readouterr().out
    assert "hf_abc" not in printed and "abcdef" not in printed
    assert "list of words" not in printed


STATES = st.one_of(
    st.just(state()),
    st.sampled_from([state(**changes) for changes, _ in FAULTS.values()] + [state(**changes) for changes, _ in WAITS.values()]),
    broken(FAULTY),
    broken(state()),
)
# Faults of the API itself: what they hit, with which status, how often.
NOISE = st.dictionaries(
    st.sampled_from(["rayservices", "labelSelector", "/events?", ":8265", ":9402", ":8080", "chat", "rayclusters"]),
    st.tuples(st.sampled_from([0, 401, 403, 404, 429, 500, 503]), st.integers(1, 3)),
    max_size=2,
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(looks=st.lists(st.tuples(STATES, NOISE), min_size=1, max_size=6), verify=st.sampled_from(["strict", "warn", "off"]))
def test_any_sequence_ends_in_success_a_named_failure_or_a_named_timeout(use, clock, looks, verify: str) -> None:
    cluster = use(Cluster())
    clock["now"] = NOW
    polls = 0
    while True:
        seen, noise = looks[min(polls, len(looks) - 1)]
        cluster.state, cluster.fails = (
            {"service": None, "pods": [], "events": [], "applications": None, "log": "", **seen},
            dict(noise),
        )
        polls += 1
        try:
            answer = index.is_complete(event(Verify=verify), None)
        except index.VerificationError as error:
            named = str(error)
            break
        assert set(answer) <= {"IsComplete", "Data"}
        assert len(json.dumps(answer)) < 4096
        if answer["IsComplete"]:
            named = answer["Data"]["VerifiedAt"]
            assert set(answer["Data"]) >= {"PrefillNodes", "DecodeNodes"}
            break
        assert "Data" not in answer, "the framework refuses data from an unfinished resource"
        clock["now"] += timedelta(seconds=20)
        if polls > len(looks):
            clock["now"] += timedelta(minutes=30)
        assert polls < len(looks) + 4, "an endless wait"
    assert 10 < len(named) <= LIMIT


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(looks=st.lists(st.tuples(STATES, NOISE), min_size=1, max_size=4))
def test_any_teardown_ends(use, clock, looks) -> None:
    cluster = use(Cluster())
    clock["now"] = NOW
    for polls in range(len(looks) + 3):
        seen, noise = looks[min(polls, len(looks) - 1)]
        cluster.state, cluster.fails = {"pods": [], **seen}, dict(noise)
        if teardown()["IsComplete"]:
            return
        clock["now"] += timedelta(minutes=0 if polls < len(looks) else 6)
    raise AssertionError("an endless wait")
