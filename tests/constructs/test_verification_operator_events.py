"""What KubeRay says in events: about the RayService as it is now, not as it was."""

from typing import Any

import pytest
from constructs.verification.handler import decisions, operator_events
from constructs.verification.handler.moment import moment

from tests.constructs.verification_states import NOW, WANTED, ray_service, state, warning

REFUSED = "The RayService spec is invalid inference/ray-llm: headService.metadata.name should not be set"


def refused(seen: int, reason: str = "InvalidRayServiceSpec", **about: Any) -> dict:
    return warning(reason, REFUSED, seen=seen, **about)


def verdict(**changes: Any) -> tuple[str, str]:
    found = decisions.decide(WANTED, state(**changes), now=NOW)
    return found.kind, found.text


@pytest.mark.parametrize("reason", ["InvalidRayServiceSpec", "InvalidRayServiceMetadata"])
def test_a_refusal_is_a_failure_in_kuberays_words_though_the_pods_run(reason: str) -> None:
    assert verdict(events=[refused(5, reason)]) == ("fail", f"KubeRay refuses the RayService: {REFUSED}")


@pytest.mark.parametrize(
    ("service", "kind"),
    [
        (ray_service(written=11), "fail"),
        # Corrected since, maybe within the same second.
        (ray_service(written=10), "serving"),
        (ray_service(written=9), "serving"),
        # KubeRay writes the status of what it accepts: an operator of another version does.
        (ray_service(written=900, status_written=11), "fail"),
        (ray_service(written=900, status_written=9), "serving"),
        ({**ray_service(), "metadata": {"uid": "uid-of-ray-llm"}}, "serving"),
    ],
)
def test_a_refusal_of_what_was_written_before_is_none(service: dict, kind: str) -> None:
    assert verdict(service=service, events=[refused(10)])[0] == kind


def test_without_managed_fields_the_creation_counts() -> None:
    service = ray_service()
    del service["metadata"]["managedFields"]
    assert verdict(service=service, events=[refused(10)])[0] == "fail"
    assert verdict(service=service, events=[refused(5001)])[0] == "serving"


@pytest.mark.parametrize(
    "about",
    [{"uid": "of the one before"}, {"kind": "RayJob"}, {"kind": "RayCluster", "name": "other-abcde"}, {"uid": None}],
)
def test_refusals_of_other_objects_are_not_ours(about: dict) -> None:
    assert verdict(events=[refused(5, **about)])[0] == "serving"


@pytest.mark.parametrize("reason", ["InvalidRayClusterSpec", "InvalidRayClusterMetadata"])
@pytest.mark.parametrize("status", ["activeServiceStatus", "pendingServiceStatus"])
@pytest.mark.parametrize(("written", "kind"), [(11, "fail"), (10, "fail"), (9, "serving")])
def test_a_refused_ray_cluster_is_a_failure_while_the_service_uses_it(reason: str, status: str, written: int, kind: str) -> None:
    event = refused(10, reason, kind="RayCluster", name="ray-llm-abcde", uid="of the Ray cluster")
    used = {status: {"rayClusterName": "ray-llm-abcde"}}
    # The status is written after the Ray cluster's name is chosen, so a write of it says nothing.
    assert verdict(service=ray_service(written=written, status_written=1, **used), events=[event])[0] == kind
    used[status]["rayClusterName"] = "ray-llm-fghij"
    assert verdict(service=ray_service(written=written, **used), events=[event])[0] == "serving"


def test_the_last_refusal_is_the_one_that_is_told() -> None:
    events = [refused(50), {**refused(5), "message": "the last"}, refused(60)]
    assert verdict(events=events) == ("fail", "KubeRay refuses the RayService: the last")


@pytest.mark.parametrize(
    "times",
    [
        {"eventTime": "2026-12-02T11:59:50.123456Z", "series": {"lastObservedTime": "2026-12-02T11:59:58.123456Z"}},
        {"eventTime": "2026-12-02T11:59:50.123456Z"},
        {"metadata": {"creationTimestamp": "2026-12-02T11:59:50Z"}},
    ],
)
def test_events_of_the_newer_kind_have_times_too(times: dict) -> None:
    event = {**refused(5), "lastTimestamp": None, "firstTimestamp": None, **times}
    assert verdict(events=[event])[0] == "fail"


def test_an_event_without_a_time_says_nothing() -> None:
    event = {**refused(5), "lastTimestamp": "soon", "metadata": {}}
    assert verdict(events=[event])[0] == "serving"


def test_other_warnings_explain_a_wait_and_are_no_failure() -> None:
    warned = warning("FailedToCreateWorkerPod", "exceeded quota", seen=40, kind="RayCluster", name="ray-llm-abcde")
    older = warning("FailedToCreateRayCluster", "timeout", seen=90)
    changes = {
        "service": ray_service(activeServiceStatus={"rayClusterName": "ray-llm-abcde"}),
        "events": [older, {**older, "type": "Normal", "lastTimestamp": NOW.isoformat()}, warned],
    }
    assert verdict(**changes, applications={}) == (
        "wait",
        "Ray to take up the serve configuration; KubeRay's last warning, 40 s ago: FailedToCreateWorkerPod: exceeded quota",
    )
    assert verdict(**changes) == ("serving", "")


def test_a_clock_that_is_ahead_makes_no_negative_age() -> None:
    said = operator_events.last_warning(ray_service(), [warning("FailedToCreateRayCluster", "x", seen=-5)], now=NOW)
    assert said == "KubeRay's last warning, 0 s ago: FailedToCreateRayCluster: x"


@pytest.mark.parametrize("timestamp", [None, 5, "soon", ""])
def test_no_timestamp_is_no_moment(timestamp: Any) -> None:
    assert moment(timestamp) is None
