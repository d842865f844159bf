"""A pipeline for the tests: its source, and a synth of it with given stages."""

import json
from pathlib import Path
from typing import Any

from aws_cdk import App, Validations

from delivery_plan import DeliveryPlan
from stacks.delivery import Delivery
from tests.conftest import TODAY, cdk_json_context

CONNECTION_ACCOUNT = "444444444444"
CONNECTION = f"arn:aws:codeconnections:us-east-1:{CONNECTION_ACCOUNT}:connection/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
SOURCE = {"SOURCE_CONNECTION_ARN": CONNECTION, "SOURCE_REPOSITORY": "owner/name", "SOURCE_BRANCH": "main"}
ONE: dict[str, Any] = {"dev": {"region": "us-east-1"}}
TWO = {**ONE, "prod": {"region": "us-east-1", "account": "222222222222"}}
THREE = {
    "dev": {"region": "us-east-1", "account": "111111111111", "wave": 1},
    "test": {"region": "eu-central-1", "account": "222222222222", "wave": 2},
    "prod": {
        "region": "us-west-2",
        "account": "333333333333",
        "wave": 2,
        "termination_protection": True,
        "public_access_cidrs": "none",
    },
}


def delivery_app(stages: dict[str, Any], *plugins: Any, validation: bool = False, **environ: str) -> tuple[App, Delivery]:
    """An app with the pipeline in it, not yet synthesized."""
    own = {key: value for key, value in cdk_json_context().items() if key != "stages"}
    context = {**own, "stages": stages}
    app = App(context=own, builtin_cloud_formation_validation=validation)
    if plugins:
        Validations.of(app).add_plugins(*plugins)
    plan = DeliveryPlan.load(context=context, environ={**SOURCE, **environ})
    assert plan
    return app, Delivery(app, plan=plan, today=TODAY)


class DeliveryTemplate:
    """The DeliveryStack of one synth, and the assembly around it."""

    def __init__(self, stages: dict[str, Any], **environ: str) -> None:
        app, _ = delivery_app(stages, **environ)
        self.assembly = app.synth()
        self.directory = Path(self.assembly.directory)
        (self.template,) = [artifact.template for artifact in self.assembly.stacks if artifact.stack_name.endswith("-delivery")]

    def stack(self, name: str, *, account: str | None = None) -> dict[str, Any]:
        """A stack by its name in CloudFormation, and by account where several have the name."""
        (found,) = [
            artifact.template
            for artifact in self.assembly.stacks_recursively
            if artifact.stack_name == name and account in (None, artifact.environment.account)
        ]
        return found

    def resources(self, type_name: str) -> dict[str, dict[str, Any]]:
        return {
            name: resource["Properties"] for name, resource in self.template["Resources"].items() if resource["Type"] == type_name
        }

    def one(self, type_name: str) -> dict[str, Any]:
        (properties,) = self.resources(type_name).values()
        return properties

    def stages(self) -> dict[str, list[dict[str, Any]]]:
        """The pipeline's actions by stage, in order of execution."""
        return {
            stage["Name"]: sorted(stage["Actions"], key=lambda action: action["RunOrder"])
            for stage in self.one("AWS::CodePipeline::Pipeline")["Stages"]
        }

    def action(self, name: str) -> dict[str, Any]:
        (found,) = [action for actions in self.stages().values() for action in actions if action["Name"] == name]
        return found

    def project(self, action: str) -> dict[str, Any]:
        """The CodeBuild project that an action starts."""
        return self.resources("AWS::CodeBuild::Project")[self.action(action)["Configuration"]["ProjectName"]["Ref"]]

    def buildspec(self, action: str) -> dict[str, Any]:
        return json.loads(self.project(action)["Source"]["BuildSpec"])

    def environment(self, action: str) -> dict[str, Any]:
        """Of the project, and of the action that starts it."""
        own = self.project(action)["Environment"].get("EnvironmentVariables", [])
        given = json.loads(self.action(action)["Configuration"].get("EnvironmentVariables", "[]"))
        return {item.get("Name", item.get("name")): item.get("Value", item.get("value")) for item in (*own, *given)}

    def statements(self, role: str) -> list[dict[str, Any]]:
        """Of the policies attached to a role, by logical id."""
        return [
            statement
            for policy in self.resources("AWS::IAM::Policy").values()
            if {"Ref": role} in policy["Roles"]
            for statement in policy["PolicyDocument"]["Statement"]
        ]
