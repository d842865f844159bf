"""Uploads a pipeline's assets with the CDK CLI."""

import json
from typing import Any, cast

from aws_cdk import aws_codebuild as codebuild, aws_iam as iam, pipelines


def publish_assets_with_cli(
    pipeline: pipelines.CodePipeline, *, cli_version: str, runtimes: dict[str, Any], stacks: str, deploy_role_arns: list[str]
) -> None:
    """Let the asset build of a built `pipeline` run `cdk publish-assets` for the stacks that match a pattern.

    The library would install the newest cdk-assets, which is one more tool that must read what the library writes, and in
    a version that nobody has tried. `runtimes` is the install phase of every build, to which the CLI is added. Before it
    uploads, the CLI asks for the version of the bootstrap stack, through the deploy role of each stage.
    """
    assets = pipeline.node.find_child("Assets")
    project = cast(codebuild.CfnProject, assets.node.find_child("FileAsset").node.default_child)
    buildspec = {
        "version": "0.2",
        "phases": {
            "install": {**runtimes, "commands": [f"npm install -g aws-cdk@{cli_version}"]},
            "build": {"commands": [f"cdk -a . publish-assets '{stacks}' --unstable publish-assets"]},
        },
    }
    project.add_property_override("Source.BuildSpec", json.dumps(buildspec))
    role = cast(iam.Role, assets.node.find_child("FileRole"))
    role.add_to_principal_policy(iam.PolicyStatement(actions=["sts:AssumeRole"], resources=deploy_role_arns))
