"""Synthesized stacks for the template tests, made once per combination of settings."""

import json
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk.cx_api import CloudAssembly

from settings import Settings
from stacks.application import Application

TODAY = date(2026, 12, 2)
STACKS = ("network", "eks", "ray-serve")


class Templates:
    """The three templates of one synth, by the last part of the stack's name."""

    def __init__(self, assembly: CloudAssembly) -> None:
        self.assembly = assembly
        self.directory = Path(assembly.directory)
        self.by_stack = {
            stack: artifact.template
            for artifact in assembly.stacks_recursively
            for stack in STACKS
            if artifact.stack_name.endswith(f"-{stack}")
        }

    def __getitem__(self, stack: str) -> dict[str, Any]:
        return self.by_stack[stack]

    def resources(self, type_name: str, *, stack: str | None = None) -> list[dict[str, Any]]:
        """Resources of a type, in one stack or in all."""
        return [
            resource
            for name, template in self.by_stack.items()
            if stack in (None, name)
            for resource in template["Resources"].values()
            if resource["Type"] == type_name
        ]

    def one(self, type_name: str, *, stack: str | None = None) -> dict[str, Any]:
        """The properties of the only resource of a type."""
        (resource,) = self.resources(type_name, stack=stack)
        return resource["Properties"]

    def manifest(self) -> list[dict[str, Any]]:
        """The Kubernetes objects of the RayServeStack."""
        resources = self.resources("Custom::AWSCDK-EKS-KubernetesResource", stack="ray-serve")
        return [item for resource in resources for item in json.loads(resource["Properties"]["Manifest"])]

    def object(self, kind: str) -> dict[str, Any]:
        """The only Kubernetes object of a kind."""
        (found,) = [item for item in self.manifest() if item["kind"] == kind]
        return found


def cdk_json_context() -> dict[str, Any]:
    return json.loads((Path(__file__).parent.parent / "cdk.json").read_text())["context"]


@cache
def _synth(items: tuple[tuple[str, str], ...]) -> Templates:
    environ = dict(items)
    context = cdk_json_context()
    app = App(context={key: value for key, value in context.items() if key != "stages"}, builtin_cloud_formation_validation=False)
    Application(app, settings=Settings.load(context=context, environ=environ), today=TODAY)
    return Templates(app.synth())


@pytest.fixture(scope="session")
def synth() -> Callable[..., Templates]:
    """`synth(GPU_NODE_TYPE="p5.48xlarge")`: the templates with these settings."""
    return lambda **environ: _synth(tuple(sorted(environ.items())))
