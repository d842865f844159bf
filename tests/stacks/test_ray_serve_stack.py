"""Operator, RayService and the commands."""

import json
import subprocess

import pytest

from charts.worker_resources import WorkerResources

OUTPUTS = [
    "StatusCommand",
    "PortForwardCommand",
    "ListModelsCommand",
    "ChatCommand",
    "VerifyEfaCommand",
    "NcclBandwidthCommand",
    "LogsCommand",
]


def test_operator_is_deleted_after_the_ray_service(synth) -> None:
    resources = synth()["ray-serve"]["Resources"]
    (manifest,) = [value for value in resources.values() if value["Type"] == "Custom::AWSCDK-EKS-KubernetesResource"]
    assert [resources[name]["Properties"]["Chart"] for name in manifest["DependsOn"]] == ["kuberay-operator"]


def test_operator_version_follows_the_setting(synth) -> None:
    assert synth(KUBERAY_VERSION="1.5.1").one("Custom::AWSCDK-EKS-HelmChart", stack="ray-serve")["Version"] == "1.5.1"


def test_ray_service(synth) -> None:
    spec = synth(RAY_VERSION="2.58.1").object("RayService")["spec"]
    assert spec["upgradeStrategy"] == {"type": "None"}
    assert spec["rayClusterConfig"]["rayVersion"] == "2.58.1"
    assert json.loads(spec["serveConfigV2"])["applications"][0]["import_path"] == "ray.serve.llm:build_pd_openai_app"


def test_head_runs_no_replica_and_has_memory_for_ray(synth) -> None:
    head = synth().object("RayService")["spec"]["rayClusterConfig"]["headGroupSpec"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    (container,) = head["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "8Gi"}
    assert head["template"]["spec"]["nodeSelector"] == {"role": "system"}


def test_ray_parameters_are_strings_that_a_shell_reads_back(synth) -> None:
    cluster = synth().object("RayService")["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    resources = [group["rayStartParams"]["resources"] for group in cluster["workerGroupSpecs"]]
    read = [
        subprocess.run(["bash", "-c", f"printf %s {value}"], capture_output=True, text=True, check=True).stdout
        for value in resources
    ]
    assert [json.loads(text) for text in read] == [{"pd_prefill": 1}, {"pd_decode": 1}]


def test_shared_memory_is_memory_backed_and_within_the_limit(synth) -> None:
    for group in synth().object("RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        spec = group["template"]["spec"]
        (volume,) = [item["emptyDir"] for item in spec["volumes"] if item["name"] == "shared-memory"]
        assert volume["medium"] == "Memory"
        limit = int(spec["containers"][0]["resources"]["limits"]["memory"].removesuffix("Gi"))
        assert 1 <= int(volume["sizeLimit"].removesuffix("Gi")) < limit
        assert "hostPath" not in json.dumps(spec)


def test_workers_may_pin_memory_for_the_device(synth) -> None:
    for group in synth().object("RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        assert group["template"]["spec"]["containers"][0]["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}


def test_pods_hold_no_kubernetes_token(synth) -> None:
    cluster = synth().object("RayService")["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["template"]["spec"]["automountServiceAccountToken"] is False


def test_hugging_face_token_is_a_reference(synth) -> None:
    def token(templates) -> list[dict]:
        groups = templates.object("RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        return [env for group in groups for env in group["template"]["spec"]["containers"][0]["env"] if env["name"] == "HF_TOKEN"]

    assert token(synth()) == []
    expected = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}}
    assert token(synth(HF_TOKEN_SECRET="hugging-face")) == [expected, expected]


def test_worker_leaves_room_for_the_system() -> None:
    worker = WorkerResources.of_node(vcpus=32, memory_mib=131072, gpus=1, efa_interfaces=1)
    assert (worker.vcpus, worker.memory_gib, worker.shared_memory_gib) == (28, 102, 25)
    assert worker.quantities() == {"cpu": "28", "memory": "102Gi", "nvidia.com/gpu": "1", "vpc.amazonaws.com/efa": "1"}


@pytest.mark.parametrize("output", OUTPUTS)
def test_commands_are_complete_and_parse(synth, output: str) -> None:
    environ = {"RAY_SERVICE_NAME": "chat", "NAMESPACE": "llm"}
    command = synth(**environ)["ray-serve"]["Outputs"][output]["Value"]
    assert "$CLUSTER" not in command
    assert "<" not in command
    subprocess.run(["bash", "-n", "-c", command], check=True)
    if "kubectl" in command:
        assert " -n llm" in command


def test_chat_command_sends_json(synth) -> None:
    command = synth(MODEL_ID="my-model")["ray-serve"]["Outputs"]["ChatCommand"]["Value"]
    body = json.loads(command.split("--data '")[1].rstrip("'"))
    assert body["model"] == "my-model"
