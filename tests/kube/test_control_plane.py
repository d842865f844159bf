"""The parts do their work: garbage collection, service accounts, tokens; and a failed start says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from local.kube.api_client import ApiClient, ApiError
from local.kube.binaries import kubernetes_version
from local.kube.control_plane import ControlPlane, ControlPlaneError
from local.kube.real_kube import free_port
from tests.kube.conftest import VERIFIER
from tests.waiting import until

CONFIG_MAPS = "/api/v1/namespaces/inference/configmaps"


def test_it_is_of_the_cluster_version_that_the_application_deploys(api, control_plane) -> None:
    assert api.get("/version")["gitVersion"] == f"v{kubernetes_version()}"
    assert kubernetes_version().startswith("1.35.")


def test_deleting_an_owner_deletes_what_it_owns(api, control_plane) -> None:
    owner = api.create(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    api.create(CONFIG_MAPS, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    api.create(CONFIG_MAPS, {"metadata": {"name": "free"}})
    api.delete(f"{CONFIG_MAPS}/owner")

    def names() -> set[str]:
        return {item["metadata"]["name"] for item in api.get(CONFIG_MAPS)["items"]}

    until(lambda: "owned" not in names(), "the owned object is deleted", 20)
    assert "free" in names()
    api.delete(f"{CONFIG_MAPS}/free")


def test_deleting_a_namespace_empties_it(api, control_plane) -> None:
    api.create("/api/v1/namespaces", {"metadata": {"name": "passing"}})
    api.create("/api/v1/namespaces/passing/configmaps", {"metadata": {"name": "inside"}})
    api.delete("/api/v1/namespaces/passing")
    names = lambda: {item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]}  # noqa: E731
    until(lambda: "passing" not in names(), "the namespace is deleted", 20)


def test_service_account_tokens_are_issued_and_accepted(api, control_plane) -> None:
    path = "/api/v1/namespaces/inference/serviceaccounts/default/token"
    token = api.create(path, {"spec": {"expirationSeconds": 600}})["status"]["token"]
    client = ApiClient(server=api.server, context=api.context, token=token)
    review = client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review["status"]["userInfo"]["username"] == "system:serviceaccount:inference:default"


def test_an_unknown_token_is_refused_and_a_user_has_no_rights_of_its_own(api, control_plane) -> None:
    with pytest.raises(ApiError) as unknown:
        ApiClient(server=api.server, context=api.context, token="unknown").get("/api/v1/namespaces")
    assert unknown.value.status == 401
    with pytest.raises(ApiError) as powerless:
        ApiClient(server=api.server, context=api.context, token=control_plane.token(VERIFIER)).get("/api/v1/secrets")
    assert powerless.value.status == 403


def test_a_failed_start_names_the_part_and_leaves_nothing_running(binaries, tmp_path: Path) -> None:
    webhook = tmp_path / "webhook.yaml"
    webhook.write_text("not: [a kubeconfig")
    failing = ControlPlane(binaries=binaries, folder=tmp_path / "cluster", port=free_port(), token_webhook=webhook)
    with pytest.raises(ControlPlaneError, match=r"^kube-apiserver ended: [\s\S]*webhook"):
        failing.start()
    running = [entry for entry in Path("/proc").glob("[0-9]*") if str(tmp_path).encode() in _command(entry)]
    assert not running


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes() if int(process.name) != os.getpid() else b""
    except OSError:
        return b""
