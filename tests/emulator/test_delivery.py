"""The pipeline's own stacks in two regions, then its stages: a run that fails, one that is rejected, one that goes through.

The tests build on each other. Every run does what the deployed pipeline says, see PipelineRun.
"""

import dataclasses
import json

import pytest

from local.account import Account, templates
from local.cdk_cli import CdkCli
from local.emulator import ACCOUNT
from tests.emulator.mutations import unseen
from tests.emulator.pipeline_run import ActionFailed, PipelineRun

PIPELINE, OTHER_REGION = "ray-llm-multinode-delivery", "us-east-1"
DEV, PROD = "ray-llm-multinode", "ray-llm-prod"
PARTS = ("network", "eks", "ray-serve")
FAULT = "started UCX instead of LIBFABRIC."


class Delivered:
    """What one test leaves for the next."""

    rows: list


def stages(region: str, **dev) -> dict:
    return {"dev": {"region": region, **dev}, "prod": {"region": OTHER_REGION, "cluster_name": PROD}}


def cli(emulator, **dev) -> CdkCli:
    settings = {
        "SOURCE_CONNECTION_ARN": f"arn:aws:codeconnections:{emulator.region}:{ACCOUNT}:connection/"
        "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
        "SOURCE_REPOSITORY": "owner/name",
        "SOURCE_BRANCH": "main",
        "NOTIFICATION_EMAIL": "me@example.com",
        "STAGES": json.dumps(stages(emulator.region, **dev)),
    }
    return CdkCli(emulator=emulator, settings=settings, application="python3 -m tests.emulator.apps.pipeline")


@pytest.fixture(scope="module")
def other_region(account) -> Account:
    """The same account, seen from the other region."""
    return Account(emulator=dataclasses.replace(account.emulator, region=OTHER_REGION))


@pytest.fixture(scope="module")
def before(account, other_region, offer) -> list[set[str]]:
    offer({})
    CdkCli(emulator=other_region.emulator).bootstrap()
    return [account.inventory(), other_region.inventory()]


@pytest.fixture(scope="module")
def assembly(emulator, before):
    return cli(emulator).synth(emulator.folder / "cdk.out.pipeline")


def statuses(account: Account, cluster: str) -> list[str]:
    """Of network, cluster and model; empty texts for stacks that are not there."""
    found = {stack["StackName"]: stack["StackStatus"] for stack in account.client("cloudformation").describe_stacks()["Stacks"]}
    return [found.get(f"{cluster}-{part}", "") for part in PARTS]


def test_every_property_of_the_pipelines_stacks_is_in_its_service(emulator, account, other_region, assembly) -> None:
    cli(emulator).deploy(assembly)
    Delivered.rows = [*account.compare(assembly), *other_region.compare(assembly)]
    assert [f"{row.type} {row.logical_id}: {row.problem}" for row in Delivered.rows if row.problem] == []
    assert len(Delivered.rows) == sum(len(template["Resources"]) for template in templates(assembly).values())
    assert {row.stack for row in Delivered.rows} == {PIPELINE, f"{PIPELINE}-{OTHER_REGION}"}


def test_compare_would_see_any_other_value_of_any_property(account, other_region) -> None:
    for seen_from, stack in ((account, PIPELINE), (other_region, f"{PIPELINE}-{OTHER_REGION}")):
        missed, places = unseen(seen_from, [row for row in Delivered.rows if row.stack == stack])
        assert missed == []
        assert places > 50


def test_failing_verification_rolls_stage_one_back_and_leaves_stage_two_untouched(
    emulator, account, other_region, assembly, reason
) -> None:
    (emulator.kube_state / "service.json").write_text(json.dumps({"fault": "ucx"}))
    run = PipelineRun(account=account, assembly=assembly, name=PIPELINE)
    with pytest.raises(ActionFailed, match=f"dev/{DEV}-ray-serve.Deploy: {DEV}-ray-serve is ROLLBACK_COMPLETE"):
        run.run()
    (emulator.kube_state / "service.json").unlink()
    assert FAULT in reason(f"{DEV}-ray-serve")
    assert statuses(account, DEV) == ["CREATE_COMPLETE", "CREATE_COMPLETE", "ROLLBACK_COMPLETE"]
    assert statuses(other_region, PROD) == ["", "", ""]
    assert not [action for action in run.done if not action.startswith("dev/")]


def test_first_creation_that_failed_must_be_deleted_before_the_next_run(account, assembly) -> None:
    with pytest.raises(ActionFailed, match=f"dev/{DEV}-ray-serve.Prepare: .*ROLLBACK_COMPLETE"):
        PipelineRun(account=account, assembly=assembly, name=PIPELINE).run()
    client = account.client("cloudformation")
    client.delete_stack(StackName=f"{DEV}-ray-serve")
    client.get_waiter("stack_delete_complete").wait(StackName=f"{DEV}-ray-serve", WaiterConfig={"Delay": 1})


def test_rejected_approval_leaves_stage_two_untouched(account, other_region, assembly) -> None:
    run = PipelineRun(account=account, assembly=assembly, name=PIPELINE, approve=lambda action: False)
    with pytest.raises(ActionFailed, match=r"prod/Approve-prod: rejected"):
        run.run()
    assert statuses(account, DEV) == ["CREATE_COMPLETE"] * 3
    assert statuses(other_region, PROD) == [""] * 3
    assert run.done[-2:] == ["dev/Check-dev", "prod/Review-prod"]


def test_check_that_fails_keeps_the_stage_and_stops_the_run(account, other_region, assembly) -> None:
    given = {}

    def build(action: str, environment: dict[str, str]) -> bool:
        given[action] = environment
        return False

    run = PipelineRun(account=account, assembly=assembly, name=PIPELINE, build=build)
    with pytest.raises(ActionFailed, match=r"dev/Check-dev: the build failed"):
        run.run()
    outputs = account.outputs_of(f"{DEV}-ray-serve")
    assert given == {
        "Check-dev": {
            "CLUSTER": DEV,
            "MODEL_ID": "qwen3.5-9b",
            "PORT_FORWARD": outputs["PortForwardCommand"],
            "LIST_MODELS": outputs["ListModelsCommand"],
        }
    }
    assert statuses(account, DEV) == ["CREATE_COMPLETE"] * 3
    assert statuses(other_region, PROD) == [""] * 3


def test_run_that_is_approved_deploys_stage_two(account, other_region, assembly) -> None:
    run = PipelineRun(account=account, assembly=assembly, name=PIPELINE)
    run.run()
    assert statuses(other_region, PROD) == ["CREATE_COMPLETE"] * 3
    assert run.done[-1] == "prod/Check-prod"


def test_failing_verification_of_an_update_brings_the_previous_configuration_back(emulator, account, other_region) -> None:
    """A fault that comes with the new configuration and goes with it."""
    unchanged = other_region.client("cloudformation").describe_stacks()["Stacks"]
    changed = cli(emulator, max_model_len="8192").synth(emulator.folder / "cdk.out.pipeline.changed")
    cli(emulator).deploy(changed)  # the pipeline updates itself first
    assert [row.problem for row in account.compare(changed) if row.problem] == []
    (emulator.kube_state / "service.json").write_text(json.dumps({"fault": "ucx", "only": "8192"}))
    with pytest.raises(ActionFailed, match=r"dev/.*-ray-serve is UPDATE_ROLLBACK_COMPLETE"):
        PipelineRun(account=account, assembly=changed, name=PIPELINE).run()
    (emulator.kube_state / "service.json").unlink()
    service = json.loads((emulator.kube_state / f"{DEV}.json").read_text())["objects"]["RayService/inference/ray-llm"]
    assert '"max_model_len": 4096' in service["spec"]["serveConfigV2"]
    assert other_region.client("cloudformation").describe_stacks()["Stacks"] == unchanged


def test_destroying_the_pipeline_leaves_the_stages_and_destroying_those_leaves_nothing(
    emulator, account, other_region, assembly, before
) -> None:
    account.client("s3").put_object(Bucket=artifact_bucket(), Key="an/artifact", Body=b"")
    cli(emulator).destroy(assembly)
    assert statuses(account, DEV) == ["CREATE_COMPLETE", "CREATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"]
    assert statuses(other_region, PROD) == ["CREATE_COMPLETE"] * 3
    for stage in ("dev", "prod"):
        cli(emulator).destroy(assembly, f"DeliveryStack/{stage}/*")
    assert [account.inventory() - before[0], other_region.inventory() - before[1]] == [set(), set()]
    assert account.gone([row for row in Delivered.rows if row.stack == PIPELINE]) == []


def artifact_bucket() -> str:
    return next(row.physical_id for row in Delivered.rows if (row.stack, row.type) == (PIPELINE, "AWS::S3::Bucket"))
