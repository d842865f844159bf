"""The whole application: a failing chart, a second attempt, an update, a destroy. The tests build on each other."""

import json

import pytest

from local.account import Account, Row, templates
from local.cdk_cli import CdkCli, CdkError
from local.service_readers import NO_RESOURCE
from tests.emulator.mutations import unseen

NETWORK, EKS, RAY = (f"ray-llm-multinode-{name}" for name in ("network", "eks", "ray-serve"))
SERVICE = {
    "apiVersion": "ray.io/v1",
    "kind": "RayService",
    "metadata": {"name": "ray-llm", "namespace": "inference"},
    "spec": {"other": 1},
}
REASON = "no space left on the operator's disk"


class Lifecycle:
    """What one step leaves for the next."""

    rows: list[Row]
    updated: list[Row]


@pytest.fixture(scope="module")
def before(account: Account) -> set[str]:
    return account.inventory()


@pytest.fixture(scope="module")
def assembly(emulator, before, offer):
    offer({"g6.8xlarge": "bc"})
    return CdkCli(emulator=emulator).synth(emulator.folder / "cdk.out")


def problems(rows: list[Row]) -> list[str]:
    return [f"{row.type} {row.logical_id}: {row.problem}" for row in rows if row.problem]


def test_failing_chart_fails_the_deployment_with_its_reason_and_rolls_back(emulator, account, assembly, reason):
    fail = emulator.kube_state / "fail.json"
    fail.write_text(json.dumps({"match": "upgrade kuberay-operator", "message": REASON}))
    with pytest.raises(CdkError, match="ray-serve failed"):
        CdkCli(emulator=emulator).deploy(assembly)
    fail.unlink()
    assert REASON in reason(RAY)
    stack = account.client("cloudformation").describe_stacks(StackName=RAY)["Stacks"][0]
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    held = json.loads((emulator.kube_state / "ray-llm-multinode.json").read_text())
    assert not any("kuberay" in key for key in held["releases"])
    assert not any(key.startswith("RayService/") for key in held["objects"])


def test_every_resource_of_every_template_is_in_its_service(emulator, account, assembly):
    CdkCli(emulator=emulator).deploy(assembly)
    Lifecycle.rows = account.compare(assembly)
    assert problems(Lifecycle.rows) == []
    assert len(Lifecycle.rows) == sum(len(template["Resources"]) for template in templates(assembly).values())
    assert {row.stack for row in Lifecycle.rows} == {NETWORK, EKS, RAY}


def test_zones_come_from_the_offering(account, assembly):
    assert account.outputs(assembly)[NETWORK]["GpuAvailabilityZone"] == "sa-east-1b"
    zones = next(row.physical_id for row in Lifecycle.rows if row.type == "Custom::GpuZones")
    assert zones == "gpu-zones:sa-east-1b,sa-east-1c,sa-east-1a"


def test_handlers_installed_charts_before_the_ray_service(calls):
    done = [call[:3] for call in calls() if call[0] != "aws" and call[1] not in ("list", "get")]
    releases = [call[2] for call in done if call[:2] == ["helm", "upgrade"]]
    assert {"kuberay-operator"} < set(releases)
    tools = [call[0] for call in done]
    # The namespace needs no chart; the RayService, applied last, needs the operator.
    assert tools.count("kubectl") >= 2
    assert tools[-1] == "kubectl"
    assert ["aws", "eks", "update-kubeconfig"] in [call[:3] for call in calls()]


def test_compare_would_see_any_other_value_of_any_property(account):
    missed, places = unseen(account, Lifecycle.rows)
    assert missed == []
    assert places > 500


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("HelmChart", {"Version": "9.9.9"}),
        ("HelmChart", {"Values": '{"other": 1}'}),
        ("HelmChart", {"Release": "other"}),
        ("KubernetesResource", {"Manifest": json.dumps([SERVICE])}),
    ],
)
def test_compare_would_see_another_chart_or_manifest(account, kind, change):
    rows = [row for row in Lifecycle.rows if row.type == f"Custom::AWSCDK-EKS-{kind}"]
    assert rows
    for row in rows:
        assert account._problem(row.type, row.physical_id, row.status, row.properties) == ""
        assert account._problem(row.type, row.physical_id, row.status, {**row.properties, **change}) != ""


def test_gone_shows_everything_as_long_as_it_is_there(account):
    there = [row for row in Lifecycle.rows if row.type.startswith("AWS::") and row.type not in NO_RESOURCE]
    assert account.gone(Lifecycle.rows) == there


def test_compare_sees_what_changed_behind_cloudformation(account, assembly):
    logs, name = account.client("logs"), "/ray-llm-multinode-eks/handlers"
    kept = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"][0]["retentionInDays"]
    logs.delete_retention_policy(logGroupName=name)
    wrong = [row for row in account.compare(assembly) if row.problem]
    logs.put_retention_policy(logGroupName=name, retentionInDays=kept)
    assert [(row.type, row.physical_id) for row in wrong] == [("AWS::Logs::LogGroup", name)]


def test_compare_sees_a_resource_that_is_not_there(account, assembly):
    ssm = account.client("ssm")
    name = next(row.physical_id for row in Lifecycle.rows if row.type == "AWS::SSM::Parameter")
    value = ssm.get_parameter(Name=name)["Parameter"]["Value"]
    ssm.delete_parameter(Name=name)
    wrong = [row for row in account.compare(assembly) if row.problem]
    ssm.put_parameter(Name=name, Value=value, Type="String")
    assert [row.type for row in wrong] == ["AWS::SSM::Parameter"]
    assert "does not have it" in wrong[0].problem


def test_update_moves_no_subnet_and_replaces_nothing(emulator, account, offer):
    """A second GPU type that every zone offers: chosen afresh, the zones would start with sa-east-1a."""
    offer({})
    cli = CdkCli(emulator=emulator, settings={"GPU_NODE_TYPE": "g6.12xlarge", "MAX_MODEL_LEN": "8192"})
    changed = cli.synth(emulator.folder / "cdk.out.changed")
    cli.deploy(changed)
    Lifecycle.updated = account.compare(changed)
    assert problems(Lifecycle.updated) == []
    old = {(row.stack, row.logical_id): row.physical_id for row in Lifecycle.rows}
    new = {(row.stack, row.logical_id): row.physical_id for row in Lifecycle.updated}
    assert new == old
    statuses = {row.type: row.status for row in Lifecycle.updated if row.status == "UPDATE_COMPLETE"}
    assert {"Custom::GpuZones", "Custom::AWSCDK-EKS-KubernetesResource", "AWS::EKS::Nodegroup"} <= set(statuses)


def test_cluster_holds_the_changed_setting(account):
    service = account.kube("kubectl", "get", "RayService", "ray-llm", "-n", "inference", "-o", "json")
    assert "8192" in service["spec"]["serveConfigV2"]


def test_destroy_leaves_nothing(emulator, account, before):
    CdkCli(emulator=emulator).destroy(emulator.folder / "cdk.out.changed")
    assert account.inventory() - before == set()
    assert account.gone(Lifecycle.updated) == []


def test_destroy_removed_the_rayservice_before_its_operator(calls):
    done = [call[:3] for call in calls()]
    removed = [call for call in done if call[1] in ("delete", "uninstall")]
    assert removed[-4:][0][:2] == ["kubectl", "delete"]
    assert removed[-3] == ["helm", "uninstall", "kuberay-operator"]
