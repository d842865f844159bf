"""Operator, RayService and the commands."""

import json
import re
import subprocess

import pytest
from constructs.verification.handler import decisions
from constructs.verification.handler.evidence import REPORT_PORT

from charts.ray_service import DIGEST_ANNOTATION
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


PROOF = ["PrefillNodes", "DecodeNodes", "KvTransferBackend", "EfaBytesPerRequest", "TimeToFirstToken", "VerifiedAt"]


def needs(resources: dict, resource: dict) -> list[str]:
    """Types of what it depends on, a manifest by the kinds in it."""
    found = []
    for name in resource["DependsOn"]:
        kind = resources[name]["Type"]
        if kind == "Custom::AWSCDK-EKS-KubernetesResource":
            kind = ",".join(item["kind"] for item in json.loads(resources[name]["Properties"]["Manifest"]))
        found.append(kind)
    return sorted(found)


def test_order_is_operator_teardown_ray_service_verification(synth) -> None:
    """And backwards when deleted: the service, its pods, then namespace, access and operator."""
    templates = synth()
    resources = templates["ray-serve"]["Resources"]
    (teardown,) = templates.resources("Custom::RayServiceTeardown")
    assert needs(resources, teardown) == [
        "AWS::EKS::AccessEntry",
        "Custom::AWSCDK-EKS-HelmChart",
        "Namespace,Role,RoleBinding",
    ]
    manifests = templates.resources("Custom::AWSCDK-EKS-KubernetesResource", stack="ray-serve")
    (service,) = [item for item in manifests if '"RayService"' in item["Properties"]["Manifest"]]
    assert needs(resources, service) == ["Custom::RayServiceTeardown"]
    (verification,) = templates.resources("Custom::Verification")
    assert needs(resources, verification) == ["AWS::EKS::AccessEntry", "ServiceAccount,ConfigMap,RayService"]


def test_proof_is_an_output_whatever_is_verified(synth) -> None:
    for setting in ("strict", "warn", "off"):
        outputs = synth(VERIFY=setting)["ray-serve"]["Outputs"]
        assert [outputs[name]["Value"]["Fn::GetAtt"][1] for name in PROOF] == PROOF
        assert synth(VERIFY=setting).one("Custom::Verification")["Verify"] == setting


def test_a_change_of_either_configuration_is_verified_again(synth) -> None:
    def digests(**environ: str) -> tuple[str, str]:
        properties = synth(**environ).one("Custom::Verification")
        return properties["ClusterDigest"], properties["ServeDigest"]

    cluster, serve = digests()
    assert digests(MAX_MODEL_LEN="8192") != (cluster, serve)
    assert digests(MAX_MODEL_LEN="8192")[0] == cluster
    assert digests(RAY_VERSION="2.58.1")[0] != cluster
    assert digests(RAY_VERSION="2.58.1")[1] == serve
    # KubeRay would leave the groups of a running cluster at the sizes they have.
    assert digests(PREFILL_REPLICAS="2", GPU_NODE_COUNT="3")[0] != cluster


def test_every_pod_says_which_configuration_it_was_made_with(synth) -> None:
    spec = synth().object("RayService")["spec"]["rayClusterConfig"]
    digest = synth().one("Custom::Verification")["ClusterDigest"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        assert group["template"]["metadata"]["annotations"] == {"ray-llm/cluster-config": digest}


def test_both_sides_compute_the_same_digests(synth) -> None:
    config = json.loads(synth().object("RayService")["spec"]["serveConfigV2"])
    reported = {app["name"]: {"deployed_app_config": app} for app in config["applications"]}
    assert decisions.serve_digest(reported) == synth().one("Custom::Verification")["ServeDigest"]
    assert decisions.DIGEST_ANNOTATION == DIGEST_ANNOTATION


def test_workers_report_beside_ray(synth) -> None:
    for group in synth().object("RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        spec = group["template"]["spec"]
        (report,) = spec["initContainers"]
        assert report["restartPolicy"] == "Always"
        assert report["image"] == spec["containers"][0]["image"]
        assert report["ports"][0]["containerPort"] == REPORT_PORT
        assert {"name": "ray-logs", "mountPath": "/tmp/ray"} in report["volumeMounts"]
        assert {"name": "ray-logs", "mountPath": "/tmp/ray"} in spec["containers"][0]["volumeMounts"]
        assert not {"nvidia.com/gpu", "vpc.amazonaws.com/efa"} & set(report["resources"]["limits"])


def test_handlers_may_do_exactly_what_they_do(synth) -> None:
    templates = synth(RAY_SERVICE_NAME="chat", NAMESPACE="llm")
    rules = {
        (resource, name, verb)
        for rule in templates.object("Role")["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ["any"])
        for verb in rule["verbs"]
    }
    assert rules == {
        ("rayservices", "chat", "get"),
        ("rayclusters", "any", "delete"),
        ("pods", "any", "list"),
        ("events", "any", "list"),
        ("pods/log", "any", "get"),
        ("pods/proxy", "any", "get"),
        ("services/proxy", "chat-serve-svc:8000", "create"),
    }
    entry = templates.one("AWS::EKS::AccessEntry", stack="ray-serve")
    assert entry["KubernetesGroups"] == [templates.object("RoleBinding")["subjects"][0]["name"]]
    assert "AccessPolicies" not in entry
    assert templates.object("Role")["metadata"]["namespace"] == "llm"


def test_verification_reaches_a_private_endpoint(synth) -> None:
    functions = synth().resources("AWS::Lambda::Function", stack="ray-serve")
    (looking,) = [item["Properties"] for item in functions if item["Properties"]["Handler"] == "handler.index.is_complete"]
    assert "ClusterSecurityGroupId" in json.dumps(looking["VpcConfig"]["SecurityGroupIds"])
    assert "Private" in json.dumps(looking["VpcConfig"]["SubnetIds"])
    assert looking["Timeout"] == 900


def test_waiter_ends_before_cloudformation_and_is_traced(synth) -> None:
    machine = synth().one("AWS::StepFunctions::StateMachine")
    text = "".join(part for part in machine["DefinitionString"]["Fn::Join"][1] if isinstance(part, str))
    (retry,) = json.loads(re.search(r'"Retry":(\[.*?\}\])', text)[1])
    attempts, interval = retry["MaxAttempts"], retry["IntervalSeconds"]
    assert 54 * 60 < attempts * interval < int(synth().one("Custom::Verification")["ServiceTimeout"])
    assert machine["TracingConfiguration"] == {"Enabled": True}
    assert machine["LoggingConfiguration"]["IncludeExecutionData"] is False


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


def test_ray_resources_are_json_between_quotes_as_kuberay_reads_them(synth) -> None:
    """KubeRay 1.4 (getResourcesMap) strips quotes and reads JSON; where it cannot, it starts workers without --num-gpus."""
    for group in synth().object("RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        assert json.loads(group["rayStartParams"]["resources"].strip("'\"` ")).values()


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
