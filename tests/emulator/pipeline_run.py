"""Runs the stages of a deployed pipeline in the order, with the actions and as the roles that CodePipeline would."""

from __future__ import annotations

import contextlib
import io
import json
import re
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from local.account import Account
from local.emulator import ACCOUNT

_POLL_S = 0.2


class ActionFailed(Exception):
    """An action failed, and with it the run; the text begins with stage and action."""


@dataclass(slots=True, kw_only=True)
class PipelineRun:
    """One execution of the stages that deploy; source, build, self-update and tests come before and are not repeated here.

    Real are CloudFormation's change sets, their order and the deploy and execution roles of `cdk bootstrap`; the pipeline's own
    role, which assumes those, is checked in the template. `approve` and
    `build` stand for a person and for CodeBuild: they get the action's name, and `build` the environment variables that the
    action passes on; what they answer decides whether the action succeeds. `done` lists what has succeeded.
    """

    account: Account
    assembly: Path
    name: str
    approve: Callable[[str], bool] = lambda action: True
    build: Callable[[str, dict[str, str]], bool] = lambda action, environment: True
    done: list[str] = field(default_factory=list)
    _variables: dict[str, dict[str, str]] = field(default_factory=dict)
    _empty: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Raises ActionFailed at the first action that fails: nothing after it is started."""
        pipeline = self.account.client("codepipeline").get_pipeline(name=self.name)["pipeline"]
        self._publish_assets()
        for stage in pipeline["stages"]:
            if any(action["actionTypeId"]["provider"] == "CloudFormation" for action in stage["actions"]):
                for action in sorted(stage["actions"], key=lambda action: action["runOrder"]):
                    self._act(pipeline, stage["name"], action)

    def _act(self, pipeline: dict[str, Any], stage: str, action: dict[str, Any]) -> None:
        name, provider, configuration = action["name"], action["actionTypeId"]["provider"], action["configuration"]
        if provider == "Manual":
            problem = "" if self.approve(name) else "rejected"
        elif provider == "CodeBuild":
            given = json.loads(configuration.get("EnvironmentVariables", "[]"))
            environment = {item["name"]: self._filled(item["value"]) for item in given}
            problem = "" if self.build(name, environment) else "the build failed"
        elif configuration["ActionMode"] == "CHANGE_SET_REPLACE":
            problem = self._prepare(pipeline, action)
        else:
            problem = self._execute(action)
        if problem:
            raise ActionFailed(f"{stage}/{name}: {problem}")
        self.done.append(f"{stage}/{name}")

    def _filled(self, value: str) -> str:
        return re.sub(r"#\{([\w@-]+)\.(\w+)\}", lambda match: self._variables.get(match[1], {}).get(match[2], match[0]), value)

    def _prepare(self, pipeline: dict[str, Any], action: dict[str, Any]) -> str:
        configuration = action["configuration"]
        client, region = self._deploying(action)
        name, change_set = configuration["StackName"], configuration["ChangeSetName"]
        stores = pipeline.get("artifactStores") or {self.account.emulator.region: pipeline["artifactStore"]}
        bucket, path = stores[region]["location"], configuration["TemplatePath"].partition("::")[2]
        self.account.client("s3").put_object(Bucket=bucket, Key=path, Body=(self.assembly / path).read_bytes())
        more = json.loads((self.assembly / configuration["TemplateConfiguration"].partition("::")[2]).read_text())
        status = self._status(client, name)
        with contextlib.suppress(client.exceptions.ClientError):  # there is none of an earlier run
            client.delete_change_set(StackName=name, ChangeSetName=change_set)
        try:
            client.create_change_set(
                StackName=name,
                ChangeSetName=change_set,
                ChangeSetType="CREATE" if status in ("", "REVIEW_IN_PROGRESS") else "UPDATE",
                TemplateURL=f"https://s3.{region}.amazonaws.com/{bucket}/{path}",
                RoleARN=configuration["RoleArn"],
                Capabilities=configuration["Capabilities"].split(","),
                Tags=[{"Key": key, "Value": value} for key, value in more.get("Tags", {}).items()],
            )
        except client.exceptions.ClientError as error:
            return str(error)
        while (found := client.describe_change_set(StackName=name, ChangeSetName=change_set))["Status"].endswith("_IN_PROGRESS"):
            time.sleep(_POLL_S)
        if found["Status"] == "CREATE_COMPLETE":
            return ""
        if "didn't contain changes" in found["StatusReason"] or "No updates" in found["StatusReason"]:
            self._empty.add(name)  # CodePipeline lets both actions succeed then
            return ""
        return found["StatusReason"]

    def _execute(self, action: dict[str, Any]) -> str:
        client, _ = self._deploying(action)
        name = action["configuration"]["StackName"]
        if name not in self._empty:
            client.execute_change_set(StackName=name, ChangeSetName=action["configuration"]["ChangeSetName"])
        time.sleep(_POLL_S)
        while (status := self._status(client, name)).endswith("_IN_PROGRESS"):
            time.sleep(_POLL_S)
        outputs = client.describe_stacks(StackName=name)["Stacks"][0].get("Outputs", [])
        self._variables[action.get("namespace", "")] = {output["OutputKey"]: output["OutputValue"] for output in outputs}
        return "" if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE") else f"{name} is {status}"

    def _deploying(self, action: dict[str, Any]) -> tuple[Any, str]:
        """CloudFormation in the action's region, as the action's role."""
        region = action.get("region", self.account.emulator.region)
        keys = self.account.client("sts").assume_role(RoleArn=action["roleArn"], RoleSessionName="pipeline")["Credentials"]
        client = boto3.client(
            "cloudformation",
            endpoint_url=self.account.emulator.endpoint,
            region_name=region,
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )
        return client, region

    @staticmethod
    def _status(client: Any, name: str) -> str:
        try:
            return client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        except client.exceptions.ClientError as error:
            if "does not exist" in str(error):
                return ""
            raise

    def _publish_assets(self) -> None:
        """What the Assets stage does with cdk-assets."""
        for manifest in self.assembly.glob("assembly-*/*.assets.json"):
            for asset in json.loads(manifest.read_text())["files"].values():
                source = manifest.parent / asset["source"]["path"]
                body = source.read_bytes() if asset["source"]["packaging"] == "file" else _zipped(source)
                for place in asset["destinations"].values():
                    bucket = place["bucketName"].replace("${AWS::AccountId}", ACCOUNT)
                    self.account.client("s3").put_object(Bucket=bucket, Key=place["objectKey"], Body=body)


def _zipped(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(file, file.relative_to(folder))
    return buffer.getvalue()
