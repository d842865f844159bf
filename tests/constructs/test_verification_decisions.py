"""Not yet, never, outdated or serving: over recorded and generated states."""

import dataclasses
from typing import Any

import pytest
from constructs.verification.handler import application_failures, decisions, pod_failures
from constructs.verification.handler.dig import dig, items, named
from constructs.verification.handler.text import LIMIT, one_line, safe
from hypothesis import given, settings, strategies as st

from tests.constructs.verification_states import (
    NOW,
    WANTED,
    ago,
    application,
    pod,
    ray_service,
    state,
    unschedulable,
    waiting,
    warning,
)


def verdict(**changes: Any) -> tuple[str, str]:
    found = decisions.decide(WANTED, state(**changes), now=NOW)
    return found.kind, found.text


def with_worker(**status: Any) -> list[dict]:
    return [pod("h", "head"), pod("w1"), pod("w2", **status)]


def test_a_running_service_is_serving() -> None:
    assert verdict() == ("serving", "")


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"service": None}, "the RayService ray-llm to exist"),
        ({"applications": None, "pods": []}, "Ray's head to answer (pods: none)"),
        (
            {"applications": None, "pods": [pod("h", "head", phase="Pending"), pod("w1")]},
            "Ray's head to answer (pods: 1 Pending, 1 Running)",
        ),
        ({"applications": {}}, "Ray to take up the serve configuration"),
        ({"applications": {"qwen": application("DEPLOYING")}}, "application qwen is DEPLOYING"),
        (
            {"applications": {"qwen": application(Decode__m={"status": "UPDATING"}, Prefill__m={})}},
            "deployment Decode:m is UPDATING, deployment Prefill:m is not there",
        ),
        ({"pods": [pod("h", "head"), pod("w1")]}, "3 running pods (2 are)"),
        ({"pods": with_worker(phase="Pending")}, "3 running pods (2 are)"),
        ({"pods": with_worker(leaving=True)}, "3 running pods (2 are)"),
        ({"service": {"status": {"serviceStatus": ""}}}, "the RayService to be Running (it is new)"),
        ({"service": {"status": {"serviceStatus": "WaitForServeDeploymentReady"}}}, "the RayService to be Running (it is WaitFor"),
    ],
)
def test_a_wait_says_what_for(changes: dict, missing: str) -> None:
    kind, text = verdict(**changes)
    assert (kind, text[: len(missing)]) == ("wait", missing)


def test_a_failure_of_the_configuration_before_is_no_failure() -> None:
    """In-place update out of DEPLOY_FAILED: Ray still reports the old configuration."""
    before = application("DEPLOY_FAILED", "broken")
    before["deployed_app_config"]["args"] = {"other": 1}
    assert verdict(applications={"qwen": before}) == ("wait", "Ray to take up the serve configuration")


def test_pods_with_an_earlier_configuration_are_replaced_before_anything_else() -> None:
    crashing = waiting("CrashLoopBackOff", restartCount=9)
    pods = [
        pod("old", digest="other", cluster="ray-llm-2", containerStatuses=[crashing]),
        pod("older", digest="", cluster="ray-llm-1"),
        pod("h", "head"),
    ]
    found = decisions.decide(WANTED, state(pods=pods), now=NOW)
    assert (found.kind, found.clusters) == ("replace", ("ray-llm-1", "ray-llm-2"))
    assert found.text == "pods with the earlier configuration of the Ray cluster to go"


def test_pods_that_are_leaving_or_of_nobody_are_not_replaced() -> None:
    stranger = pod("stranger", digest="other")
    del stranger["metadata"]["labels"]["ray.io/cluster"]
    pods = [pod("h", "head"), pod("w1"), pod("w2"), pod("old", digest="other", leaving=True), stranger]
    assert verdict(pods=pods) == ("serving", "")


def test_kuberay_refusing_the_spec_is_a_failure() -> None:
    service = {"status": {"conditions": [{"reason": "ValidationFailed", "message": "name too long"}]}}
    assert verdict(service=service) == ("fail", "KubeRay refuses the RayService: name too long")


NOT_FOUND = 'failed to resolve reference "registry/ray:tag": registry/ray:tag: not found'


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (waiting("ErrImagePull", NOT_FOUND), "cannot pull registry/ray:tag (ErrImagePull): failed to resolve"),
        (waiting("ImagePullBackOff", "Back-off: pull access denied"), "(ImagePullBackOff): Back-off: pull access denied"),
        (waiting("InvalidImageName", "x"), "(InvalidImageName)"),
        (waiting("ErrImageNeverPull", "x"), "(ErrImageNeverPull)"),
        (
            {"name": "ray-worker", "lastState": {"terminated": {"reason": "OOMKilled"}}, "state": {"waiting": {"reason": "x"}}},
            "Container ray-worker of pod w2 was killed at its memory limit (OOMKilled)",
        ),
        (
            {"name": "ray-worker", "state": {"terminated": {"reason": "OOMKilled"}}},
            "Container ray-worker of pod w2 was killed at its memory limit (OOMKilled)",
        ),
        (waiting("CrashLoopBackOff", restartCount=3), "Container ray-worker of pod w2 keeps crashing (CrashLoopBackOff)."),
        (waiting("CreateContainerConfigError", 'secret "hugging-face" not found'), "Create the secret that HF_TOKEN_SECRET names."),
    ],
)
@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
def test_containers_that_never_start(status: dict, expected: str, field: str) -> None:
    kind, text = verdict(pods=with_worker(age=121, **{field: [status]}))
    assert kind == "fail"
    assert expected in text


def test_every_container_and_condition_is_looked_at() -> None:
    running = {"name": "report", "state": {"running": {}}}
    kind, text = verdict(pods=with_worker(containerStatuses=[running, waiting("ErrImagePull", NOT_FOUND)]))
    assert (kind, "cannot pull registry/ray:tag" in text) == ("fail", True)
    second = unschedulable("w2", since=121, message="0/3 nodes are available")
    second["status"]["conditions"].insert(0, {"type": "Initialized", "status": "False", "reason": "ContainersNotInitialized"})
    kind, text = verdict(pods=[pod("h", "head"), pod("w1"), second])
    assert (kind, "0/3 nodes are available" in text) == ("fail", True)


BARE = {"name": "ray-worker"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ("serving", "")),
        (
            {"state": {"waiting": {"reason": "ErrImagePull"}}},
            ("fail", "Pod w2 cannot pull its image (ErrImagePull):  Check DLC_IMAGE."),
        ),
        (
            BARE | {"state": {"waiting": {"reason": "CreateContainerError"}}},
            ("fail", "Pod w2 cannot start (CreateContainerError): ."),
        ),
        (BARE | {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}, ("serving", "")),
        (
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3},
            ("fail", "Container a container of pod w2 keeps crashing (CrashLoopBackOff)."),
        ),
    ],
)
def test_what_a_status_leaves_out_is_no_exception(status: dict, expected: tuple[str, str]) -> None:
    assert verdict(pods=with_worker(age=901, containerStatuses=[status])) == expected


@pytest.mark.parametrize(
    ("timestamp", "seconds"), [("2026-12-02T13:59:00+02:00", 60), ("2026-12-02T11:59:00", 60), (None, 0), ("x", 0)]
)
def test_ages_are_true_in_any_time_zone(timestamp: Any, seconds: int) -> None:
    assert pod_failures.age(timestamp, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "age", "kind"),
    [
        (waiting("ErrImagePull", "dial tcp: i/o timeout"), 900, "serving"),
        (waiting("ErrImagePull", "dial tcp: i/o timeout"), 901, "fail"),
        (waiting("CreateContainerConfigError", "x"), 120, "serving"),
        (waiting("CreateContainerConfigError", "x"), 121, "fail"),
        (waiting("CreateContainerError", "x"), 121, "fail"),
        (waiting("CrashLoopBackOff", restartCount=2), 9999, "serving"),
        (waiting("ContainerCreating"), 9999, "serving"),
        ({"lastState": {"terminated": {"reason": "OOMKilled"}}, "state": {"running": {}}}, 9999, "serving"),
        (waiting("PodInitializing", "not found"), 9999, "serving"),
    ],
)
def test_containers_get_the_time_that_they_may_need(status: dict, age: int, kind: str) -> None:
    assert verdict(pods=with_worker(age=age, containerStatuses=[status]))[0] == kind


@pytest.mark.parametrize(
    ("back_off", "kind"), [("10s", "serving"), ("20s", "serving"), ("40s", "fail"), ("1m20s", "fail"), ("5m0s", "fail")]
)
@pytest.mark.parametrize("restarts", [0, 3, 40])
def test_restarts_of_long_ago_are_no_crash_loop(back_off: str, kind: str, restarts: int) -> None:
    """The kubelet's words; restartCount is of the pod's whole life, the back-off of the restarts that follow each other."""
    message = f"back-off {back_off} restarting failed container=ray-worker pod=w2_inference(5d2f)"
    pods = with_worker(age=10**6, containerStatuses=[waiting("CrashLoopBackOff", message, restartCount=restarts)])
    assert verdict(pods=pods)[0] == kind


def test_a_crash_comes_with_the_end_of_its_log() -> None:
    pods = with_worker(containerStatuses=[waiting("CrashLoopBackOff", restartCount=5)])
    _, text = verdict(pods=pods, log="Traceback\n  ImportError: no nixl\n")
    assert text.endswith("Its last lines: Traceback ImportError: no nixl")


def test_a_config_error_without_a_secret_names_no_setting() -> None:
    _, text = verdict(pods=with_worker(age=500, containerStatuses=[waiting("CreateContainerConfigError", "configmap not found")]))
    assert "HF_TOKEN_SECRET" not in text


SHORT = "0/3 nodes are available: 1 Insufficient vpc.amazonaws.com/efa, 2 Insufficient nvidia.com/gpu."


@pytest.mark.parametrize(("since", "kind"), [(120, "wait"), (121, "fail")])
def test_a_pod_that_fits_no_node_fails_after_the_plugins_had_their_time(since: int, kind: str) -> None:
    got, text = verdict(pods=[pod("h", "head"), pod("w1"), unschedulable("w2", since=since, message=SHORT)])
    assert got == kind
    assert (SHORT in text) == (kind == "fail")


def test_a_pod_that_waits_for_leaving_pods_waits() -> None:
    pods = [pod("h", "head"), unschedulable("w1", since=999, message=SHORT), pod("old", leaving=True)]
    assert verdict(pods=pods)[0] == "wait"


def test_other_conditions_are_no_reason() -> None:
    scheduled = unschedulable("w2", since=999, message=SHORT)
    scheduled["status"]["conditions"][0]["status"] = "True"
    assert pod_failures.failure(scheduled, now=NOW, waiting_for_others=False) is None


@pytest.mark.parametrize(("age", "kind"), [(120, "wait"), (121, "fail")])
def test_a_condition_without_a_time_is_as_old_as_its_pod(age: int, kind: str) -> None:
    short = unschedulable("w2", since=999, message=SHORT)
    del short["status"]["conditions"][0]["lastTransitionTime"]
    short["metadata"]["creationTimestamp"] = ago(age)
    assert verdict(pods=[pod("h", "head"), pod("w1"), short])[0] == kind


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error", "Set HF_TOKEN_SECRET"),
        ("Access to model meta-llama/X is restricted", "Set HF_TOKEN_SECRET"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "The GPU's memory is too small."),
        ("ValueError: No available memory for the cache blocks", "The GPU's memory is too small."),
        ("nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND", "Check KV_BACKEND"),
    ],
)
def test_what_ray_repeats_in_vain_fails_at_once(message: str, hint: str) -> None:
    deployments = {"Decode__m": {"status": "UPDATING", "message": message}}
    kind, text = verdict(applications={"qwen": application("DEPLOYING", **deployments)})
    assert kind == "fail"
    assert text.startswith("Application qwen is DEPLOYING and will not get further.")
    assert hint in text
    assert "Ray says: " in text


def test_deploy_failed_is_a_failure_with_rays_words() -> None:
    assert verdict(applications={"qwen": application("DEPLOY_FAILED", "Deploying app 'qwen' failed")}) == (
        "fail",
        "Application qwen is DEPLOY_FAILED. Ray says: Deploying app 'qwen' failed",
    )
    assert verdict(applications={"qwen": application("DEPLOY_FAILED")})[1].endswith("Ray says: nothing")


def test_old_words_of_a_healthy_deployment_are_no_failure() -> None:
    said = {"status": "HEALTHY", "message": "CUDA out of memory", "replicas": []}
    assert verdict(applications={"qwen": application("RUNNING", Decode__m=said)})[0] == "serving"
    assert application_failures.failure({"qwen": application("RUNNING", "CUDA out of memory")}) is None


def test_words_of_a_healthy_deployment_are_no_failure_while_another_starts() -> None:
    said = {"status": "HEALTHY", "message": "CUDA out of memory", "replicas": []}
    deployments = {"Decode__m": said, "Prefill__m": {"status": "UPDATING", "message": ""}}
    assert verdict(applications={"qwen": application("DEPLOYING", **deployments)})[0] == "wait"


def test_digest_depends_on_what_was_submitted_and_not_on_its_order() -> None:
    one, two = application(), application()
    two["deployed_app_config"]["args"] = dict(reversed(two["deployed_app_config"]["args"].items()))
    assert decisions.serve_digest({"qwen": one}) == decisions.serve_digest({"qwen": two})
    two["deployed_app_config"]["import_path"] = "other"
    assert decisions.serve_digest({"qwen": one}) != decisions.serve_digest({"qwen": two})
    assert decisions.serve_digest({"a": one, "b": two}) == decisions.serve_digest({"a": two, "b": one})


@pytest.mark.parametrize(
    "text",
    [
        "hf_abcdefghijklm",
        "AKIAABCDEFGHIJKLMNOP",
        "k8s-aws-v1.aHR0cHM6Ly9zdHM",
        "Authorization: Bearer abc.def-ghi",
        "X-Amz-Signature=0a1b2c3d&x",
        "x-amz-security-token=FwoGZXIvYXdz",
        'HF_TOKEN="s3cr3tvalue"',
        "password: s3cr3tvalue",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWIifQ.sig",
    ],
)
def test_secrets_are_removed(text: str) -> None:
    cleaned = safe(f"before {text} after")
    assert "[removed]" in cleaned
    for secret in ("abcdefgh", "AKIA", "aHR0", "def-ghi", "0a1b2c3d", "FwoG", "s3cr3t", "eyJpc3"):
        assert secret not in cleaned
    assert cleaned.startswith("before ")


def test_text_is_cut_in_the_middle() -> None:
    assert safe("a" * 100 + "b" * 100, 25) == "a" * 10 + " ... " + "b" * 10
    assert safe("a" * 25, 25) == "a" * 25
    assert one_line(" a\n b ") == "a b"


def test_dig_takes_nothing_for_granted() -> None:
    assert dig({"a": {"b": 1}}, "a", "b", default=0) == 1
    assert dig({"a": {"b": True}}, "a", "b", default=0) == 0
    assert dig({"a": None}, "a", "b", default="") == ""
    assert dig({"a": 1}, "a") == 1
    assert items({"a": [{}, 1]}, "a") == [{}]
    assert named({"b": {}, "a": {"x": 1}, "c": 2}) == [("a", {"x": 1}), ("b", {})]
    assert pod_failures.age("2026-12-02T11:59:00", NOW) == 60
    assert pod_failures.age("yesterday", NOW) == pod_failures.age(None, NOW) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)


def broken(value: Any):
    """Strategies for `value` with any part replaced by any JSON."""
    if isinstance(value, dict):
        return st.fixed_dictionaries(
            {}, optional={key: st.one_of(st.just(item), broken(item), JSON) for key, item in value.items()}
        )
    if isinstance(value, list):
        return st.lists(st.one_of(*(broken(item) for item in value), JSON), max_size=4) if value else JSON
    return st.one_of(st.just(value), JSON)


FAULTY = state(
    pods=[
        pod("h", "head"),
        pod("w1", containerStatuses=[waiting("CrashLoopBackOff", "x", restartCount=4)]),
        unschedulable("w2", since=500, message=SHORT),
    ],
    applications={"qwen": application("DEPLOYING", "CUDA out of memory")},
    service=ray_service(
        serviceStatus="",
        conditions=[{"reason": "ValidationFailed", "message": "x"}],
        activeServiceStatus={"rayClusterName": "ray-llm-abcde"},
    ),
    events=[
        warning("InvalidRayServiceSpec", "x", seen=5),
        warning("InvalidRayClusterSpec", "x", seen=5, kind="RayCluster", name="ray-llm-abcde"),
        warning("FailedToCreateRayCluster", "x", seen=5),
    ],
)


@settings(max_examples=150, deadline=None)
@given(seen=broken(FAULTY) | broken(state()), digest=st.sampled_from([WANTED.serve_digest, "other"]))
def test_any_state_gives_a_verdict_with_words(seen: dict, digest: str) -> None:
    found = decisions.decide(dataclasses.replace(WANTED, serve_digest=digest), seen, now=NOW)
    assert found.kind in ("wait", "fail", "replace", "serving")
    assert found.text or found.kind == "serving"
    assert len(safe(found.text)) <= LIMIT
    assert found.clusters or found.kind != "replace"
