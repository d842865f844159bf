"""One emulator for all tests of this folder. Run by .venv-local/bin/pytest, which has ministack."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.account import Account
from local.cdk_cli import CdkCli
from local.emulator import Emulator


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    with Emulator(name="tests") as running:
        CdkCli(emulator=running).bootstrap()
        yield running


@pytest.fixture(scope="session")
def account(emulator: Emulator) -> Account:
    return Account(emulator=emulator)


@pytest.fixture(scope="session")
def offer(emulator: Emulator) -> Callable[..., None]:
    """Set which zones offer which instance types, see InstanceOfferings."""
    return lambda rules: emulator.offerings_file.write_text(json.dumps(rules))


@pytest.fixture
def reason(account: Account) -> Callable[[str], str]:
    """The reasons of a stack's failed events, joined."""

    def failed(stack: str) -> str:
        names = [
            entry["StackId"]
            for entry in account.client("cloudformation").list_stacks()["StackSummaries"]
            if entry["StackName"] == stack
        ]
        events = account.client("cloudformation").describe_stack_events(StackName=names[0])["StackEvents"]
        return "\n".join(event.get("ResourceStatusReason", "") for event in events if "FAILED" in event["ResourceStatus"])

    return failed


@pytest.fixture(scope="session")
def calls(emulator: Emulator) -> Callable[[], list[list[str]]]:
    """The commands that handlers gave to kubectl, helm and aws, in order."""
    return lambda: [json.loads(line)["argv"] for line in (Path(emulator.kube_state) / "calls.jsonl").read_text().splitlines()]
