"""`make review` against the emulator: the real CLI prepares change sets, nothing is executed."""

import os
import subprocess

import pytest

from local.account import templates
from local.cdk_cli import CdkCli
from local.emulator import ROOT

NETWORK, EKS, RAY = (f"ray-llm-multinode-{name}" for name in ("network", "eks", "ray-serve"))


@pytest.fixture(scope="module")
def review(emulator, offer):
    """`review(assembly)`: what tools/review.py prints and the summary that it writes."""
    offer({})

    def run(assembly) -> tuple[str, str]:
        summary = emulator.folder / "summary.txt"
        result = subprocess.run(
            [ROOT / ".venv" / "bin" / "python", "-m", "tools.review", "--app", assembly, "--summary", summary],
            cwd=ROOT,
            env={**emulator.environment, "CI": "true", "NO_COLOR": "1", "PATH": os.environ["PATH"]},
            text=True,
            capture_output=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout, summary.read_text()

    return run


@pytest.fixture(scope="module")
def deployed(emulator, review):
    """The assembly as it is deployed, reviewed before and after; destroyed in the end."""
    cli = CdkCli(emulator=emulator)
    assembly = cli.synth(emulator.folder / "cdk.out.review")
    before, _ = review(assembly)
    cli.deploy(assembly)
    yield assembly, before
    cli.destroy(assembly)


def test_first_review_lists_every_resource_of_every_template_and_makes_no_stack(deployed) -> None:
    assembly, before = deployed
    for name, template in templates(assembly).items():
        assert f"{name}: new stack, {len(template['Resources'])} add" in before


def test_review_of_what_is_deployed_finds_no_changes_and_leaves_the_protection(deployed, review, account) -> None:
    assembly, _ = deployed
    client = account.client("cloudformation")
    client.update_termination_protection(StackName=NETWORK, EnableTerminationProtection=True)
    text, summary = review(assembly)
    assert client.describe_stacks(StackName=NETWORK)["Stacks"][0]["EnableTerminationProtection"] is True
    client.update_termination_protection(StackName=NETWORK, EnableTerminationProtection=False)
    assert all(f"{name}: no changes" in text for name in (NETWORK, EKS, RAY)), text
    assert summary == "; ".join(f"{name}: no changes" for name in (NETWORK, EKS, RAY))


def test_review_shows_a_change_and_executes_nothing(deployed, review, emulator, account) -> None:
    client = account.client("cloudformation")
    before, resources = client.describe_stacks(StackName=NETWORK)["Stacks"][0], account.inventory()
    changed = CdkCli(emulator=emulator, settings={"NAT_GATEWAYS": "2", "MAX_MODEL_LEN": "8192"}).synth(
        emulator.folder / "cdk.out.review.changed"
    )
    text, summary = review(changed)
    lines = [line.split() for line in text.splitlines()]
    assert ["add", "AWS::EC2::NatGateway"] in [line[:2] for line in lines]
    # CloudFormation cannot know whether a custom resource will answer with a new id, and the emulator says so.
    (service,) = [line for line in text.splitlines() if "Custom::AWSCDK-EKS-KubernetesResource" in line]
    assert service.split()[0] in ("modify", "may")
    assert "Manifest" in service
    assert f"{EKS}: no changes" in text
    assert NETWORK in summary
    after = client.describe_stacks(StackName=NETWORK)["Stacks"][0]
    assert (after["StackStatus"], after.get("LastUpdatedTime")) == (before["StackStatus"], before.get("LastUpdatedTime"))
    assert account.inventory() == resources
    changes = client.describe_change_set(StackName=NETWORK, ChangeSetName="review")
    assert (changes["ExecutionStatus"], changes["Status"]) == ("AVAILABLE", "CREATE_COMPLETE")
