"""Runs the stages of a deployed pipeline in the order, with the actions and as the roles that CodePipeline would."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
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
    """One execution of the assets' and the deploying stages; source, build, self-update and tests are not repeated here.

    Real are the asset build's commands with its role's permissions, CloudFormation's change sets, their order and the deploy and execution roles of `cdk bootstrap`; the pipeline's own
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
        self._publish_assets(pipeline)
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

    def _publish_assets(self, pipeline: dict[str, Any]) -> None:
        """Run the asset build's commands as its buildspec has them, with the permissions of its role."""
        ((action,),) = [stage["actions"] for stage in pipeline["stages"] if stage["name"] == "Assets"]
        projects = self.account.client("codebuild").batch_get_projects(names=[action["configuration"]["ProjectName"]])["projects"]
        phases = json.loads(projects[0]["source"]["buildspec"])["phases"]
        tools = self.account.emulator.folder / "npm"
        installs = [] if tools.exists() else phases["install"]["commands"]
        with self._acting_as(projects[0]["serviceRole"]) as credentials:
            build = subprocess.run(
                ["bash", "-ec", "\n".join([*installs, *phases["build"]["commands"]])],
                cwd=self.assembly,
                env={
                    **self.account.emulator.environment,
                    **credentials,
                    "NPM_CONFIG_PREFIX": str(tools),
                    "PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}",
                    "CI": "true",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        if build.returncode:
            raise ActionFailed(f"Assets/{action['name']}: {build.stdout}")

    @contextlib.contextmanager
    def _acting_as(self, role_arn: str) -> Iterator[dict[str, str]]:
        """Credentials with a role's permissions: those of a twin, as only the service may assume the role itself."""
        iam, role, twin = self.account.client("iam"), role_arn.rsplit("/", 1)[-1], "twin"
        trust = {"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        arn = iam.create_role(RoleName=twin, AssumeRolePolicyDocument=document)["Role"]["Arn"]
        names = iam.list_role_policies(RoleName=role)["PolicyNames"]
        try:
            for name in names:
                policy = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
                iam.put_role_policy(RoleName=twin, PolicyName=name, PolicyDocument=json.dumps(policy))
            keys = self.account.client("sts").assume_role(RoleArn=arn, RoleSessionName="build")["Credentials"]
            yield {
                "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
                "AWS_SESSION_TOKEN": keys["SessionToken"],
            }
        finally:
            for name in iam.list_role_policies(RoleName=twin)["PolicyNames"]:
                iam.delete_role_policy(RoleName=twin, PolicyName=name)
            iam.delete_role(RoleName=twin)
