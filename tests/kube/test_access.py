"""The verification's Role allows what its handler asks of the API server, all of it used, and nothing else."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from constructs.verification.handler import index
from constructs.verification.handler.kubernetes_api import KubernetesApi

from local.kube.api_client import ApiClient, ApiError
from tests.constructs.verification_cluster import Cluster
from tests.constructs.verification_states import NOW, PROPERTIES, pod, waiting
from tests.kube.conftest import VERIFIER

DENIED = 403


class Recording(Cluster):
    """Notes every request beside answering it."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(**changes)
        self.requests: set[tuple[str, str]] = set()

    def json(self, path: str) -> Any:
        self.requests.add(("GET", path))
        return super().json(path)

    def text(self, path: str) -> str:
        self.requests.add(("GET", path))
        return super().text(path)

    def delete(self, path: str) -> None:
        self.requests.add(("DELETE", path))
        super().delete(path)

    def lines(self, path: str, body: dict, *, timeout_s: float) -> Iterator[str]:
        self.requests.add(("POST", path))
        return super().lines(path, body, timeout_s=timeout_s)


@pytest.fixture(scope="module")
def requests() -> set[tuple[str, str]]:
    """All that the handler asks: of a good service, a crashing pod, an outdated cluster, and at the teardown."""
    outdated = [pod("h", "head", digest="0" * 16), pod("w1"), pod("w2")]
    crashing = [pod("h", "head"), pod("w1", containerStatuses=[waiting("CrashLoopBackOff", restartCount=9)]), pod("w2")]
    found: set[tuple[str, str]] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_REGION", "sa-east-1")
        patch.setattr(index, "now", lambda: NOW)
        patch.setattr(index.evidence.collect, "__kwdefaults__", {"sleep": lambda seconds: None})
        for kind, request, cluster in (
            ("Verification", "Create", Recording()),
            ("Verification", "Create", Recording(pods=crashing)),
            ("Verification", "Create", Recording(pods=outdated)),
            ("RayServiceTeardown", "Delete", Recording()),
        ):
            patch.setattr(KubernetesApi, "of_cluster", lambda name, *, region, cluster=cluster: cluster)
            event = {"RequestType": request, "ResourceType": f"Custom::{kind}", "Data": {"StartedAt": NOW.isoformat()}}
            # The crashing pod's is one.
            with contextlib.suppress(index.VerificationError):
                index.is_complete({**event, "ResourceProperties": PROPERTIES}, None)
            found |= cluster.requests
    assert {method for method, _ in found} == {"GET", "POST", "DELETE"}
    return found


@pytest.fixture
def verifier(control_plane, rendered, api) -> Iterator[ApiClient]:
    """A user of the group, with the Role and the binding applied."""
    run = control_plane.kubectl("apply", "-f", "-", stdin="".join(json.dumps(item) for item in access(rendered)))
    assert run.returncode == 0, run.stderr
    assert rendered["defaults"]["group"] == "ray-llm-verification"
    yield ApiClient(server=api.server, context=api.context, token=control_plane.token(VERIFIER))
    control_plane.kubectl("delete", "rolebinding,role", "-n", "inference", "--all")


def access(rendered: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in copy.deepcopy(rendered["defaults"]["manifests"]) if item["kind"] in ("Role", "RoleBinding")]


def status(client: ApiClient, method: str, path: str) -> int:
    """What the API server says to a request; 200 where it answers."""
    try:
        client._request(method, path, "{}" if method == "POST" else None, "application/json")
    except ApiError as error:
        return error.status
    return 200


def test_everything_that_the_handler_asks_is_allowed(verifier, requests) -> None:
    assert not [request for request in requests if status(verifier, *request) == DENIED]


def test_without_the_binding_nothing_is(control_plane, verifier, requests, api) -> None:
    stranger = ApiClient(server=api.server, context=api.context, token=control_plane.token("nobody"))
    assert {status(stranger, *request) for request in requests} == {DENIED}


def test_every_verb_of_every_rule_is_used(verifier, requests, rendered, api) -> None:
    """Without it, a request of the handler is denied."""
    (role,) = [item for item in access(rendered) if item["kind"] == "Role"]
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/inference/roles/{role['metadata']['name']}"
    tried = 0
    for number, rule in enumerate(role["rules"]):
        for field in ("verbs", "resources"):
            for value in rule[field]:
                fewer = [
                    {**other, field: [kept for kept in other[field] if kept != value]} if position == number else other
                    for position, other in enumerate(role["rules"])
                ]
                # A rule without verbs or resources is not valid.
                api.patch(path, {"rules": [other for other in fewer if other["verbs"] and other["resources"]]})
                assert DENIED in {status(verifier, *request) for request in requests}, (value, rule)
                tried += 1
    api.patch(path, {"rules": role["rules"]})
    assert tried > len(role["rules"])
    assert DENIED not in {status(verifier, *request) for request in requests}


CORE, RAY = "/api/v1/namespaces/inference", "/apis/ray.io/v1/namespaces/inference"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/pods"),
        ("GET", "/api/v1/nodes"),
        ("GET", "/api/v1/namespaces/llm/pods"),
        ("GET", f"{CORE}/pods/w1"),
        ("POST", f"{CORE}/pods"),
        ("DELETE", f"{CORE}/pods/w1"),
        ("POST", f"{CORE}/pods/w1/exec"),
        ("POST", f"{CORE}/pods/w1:8265/proxy/api/jobs/"),
        ("DELETE", f"{CORE}/pods/w1:8265/proxy/api/serve/applications/"),
        ("GET", f"{CORE}/secrets"),
        ("GET", f"{CORE}/configmaps"),
        ("GET", f"{CORE}/services"),
        ("GET", f"{CORE}/services/ray-llm-serve-svc:8000/proxy/v1/models"),
        ("POST", f"{CORE}/services/ray-llm-head-svc:8265/proxy/api/jobs/"),
        ("POST", f"{CORE}/services/ray-llm-serve-svc:8265/proxy/"),
        ("GET", f"{RAY}/rayservices"),
        ("GET", f"{RAY}/rayservices/other"),
        ("DELETE", f"{RAY}/rayservices/ray-llm"),
        ("PATCH", f"{RAY}/rayservices/ray-llm"),
        ("GET", f"{RAY}/rayclusters"),
        ("DELETE", f"{RAY}/rayclusters"),
        ("DELETE", "/apis/ray.io/v1/namespaces/llm/rayclusters/x"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/inference/roles"),
    ],
)
def test_nothing_else_is_allowed(verifier, method: str, path: str) -> None:
    assert status(verifier, method, path) == DENIED


def test_the_rules_are_the_whole_of_what_the_group_may_do(verifier, rendered, control_plane, api) -> None:
    """As the API server itself lists it, beside what every authenticated user may."""

    def listed(token: str) -> list[str]:
        client = ApiClient(server=api.server, context=api.context, token=token)
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        review = client.create(path, {"spec": {"namespace": "inference"}})["status"]
        assert review["incomplete"] is False
        return sorted(json.dumps(rule, sort_keys=True) for rule in review["resourceRules"])

    (role,) = [item for item in access(rendered) if item["kind"] == "Role"]
    everyone = listed(control_plane.token("nobody"))
    own = [rule for rule in listed(control_plane.token(VERIFIER)) if rule not in everyone]
    assert own == sorted(json.dumps(rule, sort_keys=True) for rule in role["rules"])
