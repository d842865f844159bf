"""What is asked of CloudFormation and what becomes of its answers; botocore checks both against the service's model."""

import json
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber

from tests.tools.recorded import CHANGE_SET_ID, CLUSTER, NAT, POLICY, STACK, answer
from tools.change_sets import AssemblyStack, review


@pytest.fixture
def cloudformation():
    return boto3.client("cloudformation", region_name="sa-east-1", aws_access_key_id="a", aws_secret_access_key="b")


@pytest.fixture
def stub(cloudformation):
    with Stubber(cloudformation) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def stack(tmp_path) -> AssemblyStack:
    template = {"Resources": {"A": {"Type": "AWS::EKS::Cluster"}, "B": {"Type": "AWS::IAM::Role"}}}
    (tmp_path / "t.json").write_text(json.dumps(template))
    return AssemblyStack(
        artifact="EksStack",
        selector="EksStack",
        name=STACK,
        region="sa-east-1",
        account=None,
        deploy_role_arn=None,
        template=tmp_path / "t.json",
    )


def exists(stub: Stubber, status: str = "UPDATE_COMPLETE", *, protected: bool = False) -> None:
    created = datetime(2026, 12, 2, tzinfo=UTC)
    stacks = [{"StackName": STACK, "CreationTime": created, "StackStatus": status, "EnableTerminationProtection": protected}]
    stub.add_response("describe_stacks", {"Stacks": stacks}, {"StackName": STACK})


def describe(stub: Stubber, response: dict, **parameters: str) -> None:
    stub.add_response("describe_change_set", response, {"StackName": STACK, "ChangeSetName": "review", **parameters})


def run(stack, cloudformation):
    prepared = []
    return review(stack, cloudformation=cloudformation, prepare=lambda *what: prepared.append(what)), prepared


def test_all_pages_are_read(stub, stack, cloudformation) -> None:
    exists(stub)
    describe(stub, answer(POLICY, NextToken="more"))
    describe(stub, answer(CLUSTER, NAT), NextToken="more")
    table, prepared = run(stack, cloudformation)
    assert prepared == [(stack, False)]
    assert [row.action for row in table.rows] == ["modify", "REPLACE", "REMOVE"]


def test_link_opens_the_change_set(stub, stack, cloudformation) -> None:
    exists(stub)
    describe(stub, answer(POLICY))
    table, _ = run(stack, cloudformation)
    assert table.link.startswith(
        "https://sa-east-1.console.aws.amazon.com/cloudformation/home?region=sa-east-1#/stacks/changesets/changes"
    )
    assert CHANGE_SET_ID.replace(":", "%3A").replace("/", "%2F") in table.link


def test_new_stack_is_shown_from_its_template_and_not_created(stub, stack, cloudformation) -> None:
    stub.add_client_error("describe_stacks", "ValidationError", f"Stack with id {STACK} does not exist")
    table, prepared = run(stack, cloudformation)
    assert prepared == []
    assert table.text().splitlines()[0] == f"{STACK}: new stack, 2 add"
    assert table.text().splitlines()[1].split() == ["add", "AWS::EKS::Cluster", "A"]


def test_stack_that_only_was_reviewed_is_new(stub, stack, cloudformation) -> None:
    exists(stub, "REVIEW_IN_PROGRESS")
    assert "new stack" in run(stack, cloudformation)[0].note


def test_other_errors_are_not_taken_for_a_new_stack(stub, stack, cloudformation) -> None:
    stub.add_client_error("describe_stacks", "AccessDenied", "User is not authorized")
    with pytest.raises(cloudformation.exceptions.ClientError, match="not authorized"):
        run(stack, cloudformation)


def test_change_set_that_the_cli_deleted_means_no_changes(stub, stack, cloudformation) -> None:
    exists(stub)
    stub.add_client_error("describe_change_set", "ChangeSetNotFound", "ChangeSet [review] does not exist")
    assert run(stack, cloudformation)[0].text() == f"{STACK}: no changes"


def test_empty_change_set_means_no_changes(stub, stack, cloudformation) -> None:
    exists(stub)
    reason = "The submitted information didn't contain changes. Submit different information to create a change set."
    describe(stub, answer(status="FAILED", StatusReason=reason))
    assert run(stack, cloudformation)[0].text() == f"{STACK}: no changes"


def test_failed_change_set_is_told_and_not_called_no_changes(stub, stack, cloudformation) -> None:
    exists(stub)
    describe(stub, answer(status="FAILED", StatusReason="Transform failed"))
    assert run(stack, cloudformation)[0].text() == f"{STACK}: no change set: Transform failed"


def test_assembly_gives_stacks_in_the_order_of_their_dependencies(synth) -> None:
    stacks = AssemblyStack.all(Path(synth(CDK_DEFAULT_ACCOUNT="123456789012").directory))
    assert [stack.name for stack in stacks] == [f"ray-llm-multinode-{name}" for name in ("network", "eks", "ray-serve")]
    assert {(stack.account, stack.region) for stack in stacks} == {("123456789012", "sa-east-1")}
    assert [stack.selector for stack in stacks] == ["NetworkStack", "EksStack", "RayServeStack"]
    assert all("deploy-role" in stack.deploy_role_arn and stack.template.exists() for stack in stacks)


def test_assembly_without_an_account_says_so(synth) -> None:
    assert {stack.account for stack in AssemblyStack.all(Path(synth().directory))} == {None}


@pytest.mark.parametrize("protected", [True, False])
def test_termination_protection_is_what_it_is(stub, stack, cloudformation, protected: bool) -> None:
    exists(stub, protected=protected)
    describe(stub, answer(POLICY))
    assert run(stack, cloudformation)[1] == [(stack, protected)]


@pytest.mark.parametrize("status", ["CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED"])
def test_a_stack_that_was_never_made_is_left_alone(stub, stack, cloudformation, status: str) -> None:
    """The CLI would delete it before it makes a change set."""
    exists(stub, status)
    table, prepared = run(stack, cloudformation)
    assert prepared == []
    assert f"{status}: its first creation failed, so nothing can change it; delete it first" in table.text()
