"""Handlers that fail, and handlers that take their time."""

import pytest

from local.cdk_cli import CdkCli, CdkError
from local.emulator import ROOT


def status(account, stack):
    return account.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]


def test_type_that_is_offered_elsewhere_names_the_region_and_rolls_back(emulator, account, offer, reason):
    offer({"g6.8xlarge": {"us-east-2": "ab"}})
    before = account.inventory()
    cli = CdkCli(emulator=emulator, settings={"CLUSTER_NAME": "nowhere"})
    assembly = cli.synth(emulator.folder / "cdk.out.nowhere")
    with pytest.raises(CdkError):
        cli.deploy(assembly)
    offer({})
    assert "GPU_NODE_TYPE=g6.8xlarge is not offered" in reason("nowhere-network")
    assert "us-east-2" in reason("nowhere-network")
    assert status(account, "nowhere-network") == "ROLLBACK_COMPLETE"
    assert account.inventory() - before == {"stack nowhere-network"}
    cli.destroy(assembly)
    assert account.inventory() - before == set()


def async_cli(emulator, **settings):
    app = f"{ROOT}/.venv/bin/python {ROOT}/tests/emulator/apps/async_provider.py"
    return CdkCli(emulator=emulator, application=app, settings=settings)


def test_asynchronous_provider_waits_until_its_handler_says_so(emulator, account):
    before = account.inventory()
    cli = async_cli(emulator)
    assembly = cli.synth(emulator.folder / "cdk.out.async")
    cli.deploy(assembly)
    assert account.outputs(assembly)["async"]["Looks"] == "3"
    cli.destroy(assembly)
    assert {item for item in account.inventory() - before if not item.startswith("log group /aws/lambda/")} == set()


def test_asynchronous_provider_fails_with_the_reason_of_its_handler(emulator, account, reason):
    cli = async_cli(emulator, FAIL="yes")
    assembly = cli.synth(emulator.folder / "cdk.out.async-fail")
    with pytest.raises(CdkError):
        cli.deploy(assembly)
    assert "the slow thing broke for a reason of its own" in reason("async")
    assert status(account, "async") == "ROLLBACK_COMPLETE"
    cli.destroy(assembly)


def test_handler_without_a_permission_is_denied(emulator, account, reason):
    """IAM is enforced: the handler's role lacks the one action that its code needs."""
    cli = CdkCli(emulator=emulator, settings={"CLUSTER_NAME": "denied"})
    assembly = cli.synth(emulator.folder / "cdk.out.denied")
    file = assembly / "NetworkStack.template.json"
    text = file.read_text()
    assert text.count('"ec2:DescribeInstanceTypeOfferings"') == 1
    file.write_text(text.replace('"ec2:DescribeInstanceTypeOfferings"', '"ec2:DescribeImages"'))
    with pytest.raises(CdkError):
        cli.deploy(assembly)
    assert "is not authorized to perform: ec2:DescribeInstanceTypeOfferings" in reason("denied-network")
    assert status(account, "denied-network") == "ROLLBACK_COMPLETE"
    cli.destroy(assembly)
