"""What `python -m local.demo` is given."""

import os
import subprocess
import sys

import pytest

from local import demo
from local.account import Account
from local.emulator import ROOT, Emulator


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"GPU_NODE_TYPE": "m7i.xlarge"}, "GPU_NODE_TYPE=m7i.xlarge: it is no GPU type with EFA"),
        ({"SOURCE_BRANCH": "main"}, "SOURCE_BRANCH=main: a pipeline needs SOURCE_CONNECTION_ARN"),
        (
            {
                "SOURCE_CONNECTION_ARN": "arn:aws:codeconnections:us-east-1:123456789012:connection/"
                "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
                "SOURCE_REPOSITORY": "owner/name",
                "SOURCE_BRANCH": "main",
            },
            "SOURCE_...: with them there is a pipeline, and this deploys one stage by itself; allowed is none",
        ),
    ],
    ids=["unknown type", "half a source", "a pipeline"],
)
def test_settings_that_are_not_usable_are_refused_before_anything_starts(settings: dict[str, str], said: str) -> None:
    command = [sys.executable, "-m", "local.demo", "refused"]
    run = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.startswith("make local: 1 setting is not usable:\n")
    assert said in run.stderr
    assert run.stdout == ""
    assert not Emulator(name="refused").folder.exists()


def test_the_emulator_is_the_account_and_region_that_it_is_asked_for() -> None:
    with Emulator(name="account", account="222222222222", region="eu-central-1") as other:
        account = Account(emulator=other)
        assert account.client("sts").get_caller_identity()["Account"] == "222222222222"
        topic = account.client("sns").create_topic(Name="any")["TopicArn"]
    assert topic == "arn:aws:sns:eu-central-1:222222222222:any"


def test_account_and_region_are_those_of_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    class NeverStarts:
        log_file = "nowhere"

        def __init__(self, **arguments: str) -> None:
            asked.update(arguments)

        def __enter__(self) -> None:
            raise RuntimeError("this is as far as it goes")

        def __exit__(self, *_: object) -> None: ...

    stage = {"account": "222222222222", "region": "eu-central-1"}
    monkeypatch.setattr(demo, "cdk_context", lambda: {"stages": {"dev": stage}})
    monkeypatch.setattr(demo, "Emulator", NeverStarts)
    monkeypatch.setattr(sys, "argv", ["local.demo", "mine"])
    for name in ("REGION", "STAGE"):
        monkeypatch.delenv(name, raising=False)
    assert demo.main() == 1
    assert asked == {"name": "mine", "kube": "recorded", **stage}
