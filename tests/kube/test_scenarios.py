"""The whole application on a real cluster: what happens to it, and that it answers afterwards. The tests build on each other.

Real CDK CLI, handlers, kubectl, helm, API server, scheduler, controllers, KubeRay operator and Ray; see the README for what is
simulated. Every deployment ends with the application's own verification.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from local.account import Account
from local.cdk_cli import CdkCli, CdkError
from local.emulator import Emulator
from local.kube.api_client import ApiClient
from local.kube.live_service import LiveService, left_in_cluster
from local.kube.sandbox import sandboxed
from local.serve.openai_client import OpenAiClient
from tests.waiting import until

RAY = "ray-llm-multinode-ray-serve"
PATIENCE_SECONDS = 240.0
OPERATOR = "/api/v1/namespaces/kuberay-system/pods"


class Application:
    """Deploys settings and asks what came of it."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator, self.account = emulator, Account(emulator=emulator)
        self.before = self.account.inventory()
        self._assemblies: dict[tuple[tuple[str, str], ...], Path] = {}

    @property
    def api(self) -> ApiClient:
        _, kubeconfig = self.emulator.kube_client
        return ApiClient.of_kubeconfig(kubeconfig)

    @property
    def service(self) -> LiveService:
        return LiveService.only_one(self.api)

    def assembly(self, settings: Mapping[str, str]) -> Path:
        key = tuple(sorted(settings.items()))
        if key not in self._assemblies:
            folder = self.emulator.folder / f"cdk.out.{len(self._assemblies)}"
            self._assemblies[key] = CdkCli(emulator=self.emulator, settings=settings).synth(folder)
        return self._assemblies[key]

    def deploy(self, **settings: str) -> dict[str, str]:
        """The last stack's outputs."""
        assembly = self.assembly(settings)
        CdkCli(emulator=self.emulator, settings=settings).deploy(assembly)
        return self.account.outputs(assembly)[RAY]

    def chat(self) -> str:
        client = OpenAiClient(url=self.service.url())
        (model,) = client.models()
        return "".join(client.stream(model=model, text="one two three", max_tokens=24))

    def pods(self) -> dict[str, str]:
        """Name by uid."""
        return {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in self.service.pods()}


@pytest.fixture(scope="module")
def application(binaries) -> Iterator[Application]:
    assert sandboxed(), "pods need namespaces of their own: make test-kube"
    with Emulator(name="kube-scenarios", kube="real") as emulator:
        CdkCli(emulator=emulator).bootstrap()
        yield Application(emulator)


def test_a_first_deployment_is_verified_and_answers(application: Application) -> None:
    outputs = application.deploy()
    assert outputs["KvTransferBackend"] == "LIBFABRIC"
    assert int(outputs["EfaBytesPerRequest"]) > 0
    assert outputs["PrefillNodes"] != outputs["DecodeNodes"]
    assert "three" in application.chat()
    rows = application.account.compare(application.assembly({}))
    assert [f"{row.logical_id}: {row.problem}" for row in rows if row.problem] == []


def test_a_changed_serve_configuration_is_applied_in_place(application: Application) -> None:
    before, generation = application.pods(), application.service.ray_service()["metadata"]["generation"]
    verified = application.account.outputs(application.assembly({}))[RAY]["VerifiedAt"]
    outputs = application.deploy(MAX_MODEL_LEN="8192")
    assert application.pods() == before
    assert application.service.ray_service()["metadata"]["generation"] > generation
    assert outputs["VerifiedAt"] != verified
    assert "three" in application.chat()


def test_an_edit_by_hand_is_put_back_by_the_next_deployment(application: Application) -> None:
    service = application.service
    path = f"/apis/ray.io/v1/namespaces/{service.namespace}/rayservices/{service.name}"
    config = service.ray_service()["spec"]["serveConfigV2"]
    edited = json.loads(config)
    edited["applications"][0]["args"]["decode_config"]["engine_kwargs"]["max_model_len"] = 1234
    application.api.merge(path, {"spec": {"serveConfigV2": json.dumps(edited), "serviceUnhealthySecondThreshold": 77}})
    application.deploy()
    now = application.service.ray_service()["spec"]
    lengths = {
        json.loads(now["serveConfigV2"])["applications"][0]["args"][side]["engine_kwargs"]["max_model_len"]
        for side in ("prefill_config", "decode_config")
    }
    assert lengths == {4096}
    assert "three" in application.chat()


def test_a_spec_that_kuberay_refuses_stops_the_update_at_once_and_its_event_not_the_roll_back(application: Application) -> None:
    """The CRD's schema takes any upgrade strategy, the operator two. Its event outlives the roll-back, which is verified too."""
    settings, before = {"MAX_MODEL_LEN": "2048"}, application.pods()
    assembly = application.assembly(settings)
    template, strategy = assembly / "RayServeStack.template.json", r"\"upgradeStrategy\":{\"type\":\"None\"}"
    assert template.read_text().count(strategy) == 1
    template.write_text(template.read_text().replace(strategy, strategy.replace("None", "Rolling")))
    with pytest.raises(CdkError, match="ray-serve failed"):
        CdkCli(emulator=application.emulator, settings=settings).deploy(assembly)
    cloudformation = application.account.client("cloudformation")
    events = [
        event
        for event in reversed(cloudformation.describe_stack_events(StackName=RAY)["StackEvents"])
        if event["ResourceType"] == "Custom::Verification"
    ]
    (failed,) = [event for event in events if event["ResourceStatus"] == "UPDATE_FAILED"]
    said = "value Rolling is invalid, valid options are NewCluster or None"
    name = f"{application.service.namespace}/{application.service.name}"
    refusal = f"The RayService spec is invalid {name}: Spec.UpgradeStrategy.Type {said}"
    assert f"KubeRay refuses the RayService: {refusal}" in failed["ResourceStatusReason"]
    started = [event for event in events[: events.index(failed)] if event["ResourceStatus"] == "UPDATE_IN_PROGRESS"][-1]
    assert (failed["Timestamp"] - started["Timestamp"]).total_seconds() < 45
    assert events[-1]["ResourceStatus"] == "UPDATE_COMPLETE", "the roll-back is verified, while the event is still there"
    assert cloudformation.describe_stacks(StackName=RAY)["Stacks"][0]["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert application.service.ray_service()["spec"]["upgradeStrategy"] == {"type": "None"}
    assert application.pods() == before
    assert "three" in application.chat()


def test_a_changed_ray_cluster_replaces_the_first_though_the_operator_restarts(application: Application) -> None:
    """Two things at once, since each costs a whole start: KubeRay would ignore the change, and it dies on the way."""
    before = {pod["metadata"]["labels"]["ray.io/cluster"] for pod in application.service.pods()}
    with ThreadPoolExecutor() as pool:
        deployment: Future[dict[str, str]] = pool.submit(application.deploy, RAY_VERSION="2.58.1")
        until(
            lambda: deployment.done() or not before & _clusters(application), "the first Ray cluster is deleted", PATIENCE_SECONDS
        )
        operators = application.api.get(OPERATOR)["items"]
        for pod in operators:
            application.api.delete(f"{OPERATOR}/{pod['metadata']['name']}")
        outputs = deployment.result()
    assert not before & _clusters(application)
    assert {pod["metadata"]["uid"] for pod in application.api.get(OPERATOR)["items"]}.isdisjoint(
        pod["metadata"]["uid"] for pod in operators
    )
    assert outputs["KvTransferBackend"] == "LIBFABRIC"
    assert "three" in application.chat()


def test_destroy_leaves_nothing_though_the_operator_is_dead(application: Application) -> None:
    api, settings = application.api, {"RAY_VERSION": "2.58.1"}
    api.merge("/apis/apps/v1/namespaces/kuberay-system/deployments/kuberay-operator", {"spec": {"replicas": 0}})
    until(lambda: not api.get(OPERATOR)["items"], "the operator ends", PATIENCE_SECONDS)
    cli = CdkCli(emulator=application.emulator, settings=settings)
    cli.destroy(application.assembly(settings), "RayServeStack")
    assert left_in_cluster(api) == set()
    cli.destroy(application.assembly(settings))
    assert application.account.inventory() - application.before == set()


def _clusters(application: Application) -> set[str]:
    return {pod["metadata"]["labels"]["ray.io/cluster"] for pod in application.service.pods()}
