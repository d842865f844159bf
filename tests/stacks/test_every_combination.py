"""What holds for every mix of settings."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from catalog.efa_instance_type import efa_instance_types
from tests.stacks.settings_matrix import COMBINATIONS


def walk(value: Any) -> Iterator[Any]:
    yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from walk(child)


def exports(templates) -> dict[str, set[str]]:
    return {
        stack: {key for key in template["Outputs"] if key.startswith("Exports")} for stack, template in templates.by_stack.items()
    }


@pytest.fixture(params=COMBINATIONS.values(), ids=COMBINATIONS.keys())
def templates(request, synth):
    return synth(**request.param)


def test_no_lookup_and_no_dummy(templates) -> None:
    assert "missing" not in json.loads((templates.directory / "manifest.json").read_text())
    text = json.dumps(templates.by_stack)
    assert "dummy" not in text
    assert "Token[" not in text


def test_network_stack_depends_on_nothing(templates) -> None:
    artifacts = {artifact.stack_name.rsplit("-", 1)[-1]: artifact for artifact in templates.assembly.stacks}
    network = artifacts["network"]
    assert not [dependency for dependency in network.dependencies if not dependency.id.endswith(".assets")]
    assert "Fn::ImportValue" not in json.dumps(templates["network"])


def test_exports_are_the_same_set(templates, synth) -> None:
    assert exports(templates) == exports(synth())


def test_every_stack_output_and_role_has_a_description(templates) -> None:
    for template in templates.by_stack.values():
        assert template["Description"]
        assert all(output.get("Description") for output in template["Outputs"].values())
        assert all(parameter.get("Description") for parameter in template["Parameters"].values())
    assert all(role["Properties"].get("Description") for role in templates.resources("AWS::IAM::Role"))


def test_every_role_description_is_one_iam_accepts(templates) -> None:
    for role in templates.resources("AWS::IAM::Role"):
        assert re.fullmatch(r"[\t\n\r -~¡-ÿ]{1,1000}", role["Properties"]["Description"])


def test_taggable_resources_carry_project_stage_and_cluster(templates) -> None:
    tagged = 0
    for template in templates.by_stack.values():
        for resource in template["Resources"].values():
            tags = resource.get("Properties", {}).get("Tags")
            if tags:
                keys = set(tags) if isinstance(tags, dict) else {tag["Key"] for tag in tags}
                assert {"project", "stage", "cluster"} <= keys, resource["Type"]
                tagged += 1
    assert tagged > 30


def test_manifest_fits_the_handler(templates) -> None:
    assert len(json.dumps(templates.manifest())) < 200_000


def test_selectors_and_tolerations_fit_the_node_groups(templates) -> None:
    groups = [group["Properties"] for group in templates.resources("AWS::EKS::Nodegroup")]
    cluster = templates.object("RayService")["spec"]["rayClusterConfig"]
    charts = [json.loads(chart["Properties"]["Values"]) for chart in templates.resources("Custom::AWSCDK-EKS-HelmChart")]
    pods = [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])] + charts
    assert len(pods) == 6
    for pod in pods:
        (group,) = [group for group in groups if pod["nodeSelector"].items() <= group["Labels"].items()]
        tolerated = {toleration["key"] for toleration in pod.get("tolerations", [])}
        assert {taint["Key"] for taint in group.get("Taints", [])} <= tolerated


def test_workers_ask_for_all_gpus_and_efa_interfaces_of_their_node(templates) -> None:
    data = [template["Properties"]["LaunchTemplateData"] for template in templates.resources("AWS::EC2::LaunchTemplate")]
    (gpu_node,) = [item for item in data if "NetworkInterfaces" in item]
    instance = efa_instance_types()[gpu_node["InstanceType"]]
    prefill, decode = templates.object("RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert (prefill["groupName"], decode["groupName"]) == ("prefill", "decode")
    for group in (prefill, decode):
        (container,) = group["template"]["spec"]["containers"]
        limits = container["resources"]["limits"]
        assert limits == container["resources"]["requests"]
        assert int(limits["nvidia.com/gpu"]) == instance.gpu_count
        assert int(limits["vpc.amazonaws.com/efa"]) == instance.efa_interfaces
        assert 0 < int(limits["cpu"]) < instance.vcpus
        assert 0 < int(limits["memory"].removesuffix("Gi")) < instance.memory_mib / 1024


def test_workers_fit_the_nodes_and_every_one_has_a_replica(templates) -> None:
    spec = templates.object("RayService")["spec"]
    groups = spec["rayClusterConfig"]["workerGroupSpecs"]
    (gpu_group,) = [item["Properties"] for item in templates.resources("AWS::EKS::Nodegroup") if "Taints" in item["Properties"]]
    assert sum(group["replicas"] for group in groups) <= gpu_group["ScalingConfig"]["DesiredSize"]
    arguments = json.loads(spec["serveConfigV2"])["applications"][0]["args"]
    for group, config in zip(groups, (arguments["prefill_config"], arguments["decode_config"]), strict=True):
        replicas = config["deployment_config"]["num_replicas"]
        gpus = int(group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        per_node = gpus // config["engine_kwargs"].get("tensor_parallel_size", 1)
        assert (group["replicas"] - 1) * per_node < replicas <= group["replicas"] * per_node


def test_kubernetes_makes_nothing_that_outlives_the_stacks(templates) -> None:
    assert {item["kind"] for item in templates.manifest()} == {"Namespace", "ServiceAccount", "ConfigMap", "RayService"}
    assert "LoadBalancer" not in json.dumps(templates.manifest())


def test_kubectl_is_within_one_minor_version(templates) -> None:
    minor = int(templates.one("AWS::EKS::Cluster")["Version"].split(".")[1])
    descriptions = [layer["Properties"]["Description"] for layer in templates.resources("AWS::Lambda::LayerVersion")]
    (kubectl,) = [int(found[1]) for text in descriptions if (found := re.search(r"kubectl 1\.(\d+)", text))]
    assert abs(kubectl - minor) <= 1
