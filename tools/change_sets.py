"""Prepares change sets with the CDK CLI and reads them from CloudFormation; executes none."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from botocore.exceptions import ClientError

from catalog.aws_partition import console_url
from tools.change_row import ChangeRow
from tools.change_table import ChangeTable

CHANGE_SET = "review"
ROOT = Path(__file__).parent.parent
_NEVER_MADE = ("CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
_CDK = ROOT / "node_modules" / ".bin" / "cdk"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyStack:
    """A stack of a cloud assembly, from its manifest.json."""

    artifact: str
    selector: str
    name: str
    region: str | None
    account: str | None
    deploy_role_arn: str | None
    template: Path

    @classmethod
    def all(cls, assembly: Path) -> list[AssemblyStack]:
        """In the order of their dependencies, as far as they lie in this folder."""
        artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
        found = {name: item for name, item in artifacts.items() if item["type"] == "aws:cloudformation:stack"}
        ordered: list[str] = []

        def visit(name: str) -> None:
            for other in found[name].get("dependencies", []):
                if other in found and other not in ordered:
                    visit(other)
            if name not in ordered:
                ordered.append(name)

        for name in found:
            visit(name)
        return [cls._of(assembly, name, found[name]) for name in ordered]

    @classmethod
    def _of(cls, assembly: Path, name: str, artifact: dict[str, Any]) -> AssemblyStack:
        properties = artifact["properties"]
        account, region = artifact["environment"].removeprefix("aws://").split("/")
        return cls(
            artifact=name,
            selector=artifact.get("displayName", name).split(" ")[0],
            name=properties.get("stackName", name),
            region=None if region == "unknown-region" else region,
            account=None if account == "unknown-account" else account,
            deploy_role_arn=properties.get("assumeRoleArn"),
            template=assembly / properties["templateFile"],
        )


def prepare(assembly: Path, stack: AssemblyStack, *, protected: bool) -> None:
    """Create the change set CHANGE_SET of an existing stack, in place of one of that name; publish the assets it names.

    `protected` is the stack's termination protection, which stays: the CLI sets it to the assembly's value on the way.

    Raises:
        subprocess.CalledProcessError: when the CLI cannot; its message is in stderr.
    """
    manifest = json.loads((assembly / "manifest.json").read_text())
    manifest["artifacts"][stack.artifact]["properties"]["terminationProtection"] = protected
    # Beside the assembly, since a stage's assembly refers to assets in the folder above.
    with tempfile.TemporaryDirectory(dir=assembly.resolve().parent, prefix="cdk.out.review.") as folder:
        for entry in assembly.resolve().iterdir():
            if entry.name != "manifest.json":
                Path(folder, entry.name).symlink_to(entry)
        Path(folder, "manifest.json").write_text(json.dumps(manifest))
        subprocess.run(
            [
                *(_CDK, "deploy", stack.selector, "--exclusively", "--app", folder),
                *("--method", "prepare-change-set", "--change-set-name", CHANGE_SET),
                *("--require-approval", "never", "--progress", "events", "--no-notices"),
            ],
            check=True,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )


def review(stack: AssemblyStack, *, cloudformation: Any, prepare: Callable[[AssemblyStack, bool], None]) -> ChangeTable:
    """What deploying `stack` would do, by a client of its account and region; `prepare` is told its termination protection."""
    found = _existing(cloudformation, stack.name)
    if found is None:
        resources = json.loads(stack.template.read_text())["Resources"]
        rows = tuple(ChangeRow.of_new(logical_id=name, type=resource["Type"]) for name, resource in resources.items())
        return ChangeTable(stack=stack.name, rows=rows, note=f"new stack, {len(rows)} add")
    if found["StackStatus"] in _NEVER_MADE:
        # The CLI would delete it to make the change set.
        note = f"{found['StackStatus']}: its first creation failed, so nothing can change it; delete it first"
        return ChangeTable(stack=stack.name, rows=(), note=note)
    prepare(stack, found.get("EnableTerminationProtection", False))
    try:
        pages = _pages(cloudformation, stack.name)
    except cloudformation.exceptions.ChangeSetNotFoundException:
        # The CLI deletes a change set that would change nothing.
        return ChangeTable(stack=stack.name, rows=())
    first = pages[0]
    changes = [change for page in pages for change in page.get("Changes", []) if "ResourceChange" in change]
    if first["Status"] == "FAILED":
        reason = first.get("StatusReason", "no reason given")
        unchanged = "didn't contain changes" in reason or "No updates" in reason
        return ChangeTable(stack=stack.name, rows=(), note="" if unchanged else f"no change set: {reason}")
    return ChangeTable(
        stack=stack.name,
        rows=tuple(ChangeRow.of_change(change) for change in changes),
        link=_link(first),
    )


def _existing(cloudformation: Any, name: str) -> dict[str, Any] | None:
    try:
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    # A stack whose first change set was never executed has no resources.
    return None if stack["StackStatus"] in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE") else stack


def _pages(cloudformation: Any, name: str) -> list[dict[str, Any]]:
    pages = [cloudformation.describe_change_set(StackName=name, ChangeSetName=CHANGE_SET)]
    while token := pages[-1].get("NextToken"):
        pages.append(cloudformation.describe_change_set(StackName=name, ChangeSetName=CHANGE_SET, NextToken=token))
    return pages


def _link(answer: dict[str, Any]) -> str:
    region = answer["ChangeSetId"].split(":")[3]
    return (
        f"{console_url(region)}/cloudformation/home?region={region}#/stacks/changesets/changes"
        f"?stackId={quote(answer['StackId'], safe='')}&changeSetId={quote(answer['ChangeSetId'], safe='')}"
    )
