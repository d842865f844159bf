"""What the pipeline's scripts run, against what `make test` runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make_targets(script: str) -> list[str]:
    return [
        target
        for line in (ROOT / ".ci" / script).read_text().splitlines()
        if not line.startswith("#") and (call := re.search(r"\bmake ([a-z -]+)$", line))
        for target in call[1].split()
    ]


def test_synth_and_test_together_are_make_test() -> None:
    prerequisites = re.search(r"^test: ([a-z -]+?) ##", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert make_targets("pipeline-synth") + make_targets("pipeline-test") == prerequisites


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / ".ci").iterdir()))
def test_scripts_are_bash(script: str) -> None:
    assert "bash" in (ROOT / ".ci" / script).read_text().splitlines()[0]
    subprocess.run(["bash", "-n", ROOT / ".ci" / script], check=True)


def test_protection_is_switched_on_as_the_deploy_role(tmp_path) -> None:
    (tmp_path / "aws").write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps([os.environ.get('AWS_SESSION_TOKEN'), *sys.argv[1:]]), file=sys.stderr)\n"
        "if 'sts' in sys.argv: print('KEY SECRET TOKEN')\n"
    )
    (tmp_path / "aws").chmod(0o755)
    run = subprocess.run(
        [ROOT / ".ci" / "protect-stacks", "a-network", "a-eks"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "DEPLOY_ROLE": "arn:deploy", "STACKS_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assume, *protected = [json.loads(line) for line in run.stderr.splitlines()]
    assert assume[1:5] == ["sts", "assume-role", "--role-arn", "arn:deploy"]
    assert [(call[0], call[3], call[call.index("--stack-name") + 1]) for call in protected] == [
        ("TOKEN", "--enable-termination-protection", "a-network"),
        ("TOKEN", "--enable-termination-protection", "a-eks"),
    ]
