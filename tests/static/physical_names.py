"""The ARNs that the templates' resources get, with what makes them: names that are given, and those that CloudFormation makes."""

from collections.abc import Callable, Iterator
from typing import Any

_RANDOM = "1A2B3C4D5E6F"


def arns(stack: str, template: dict[str, Any], *, cluster: str) -> Iterator[tuple[str, str, list[str]]]:
    """(logical id, ARN, actions) of each resource whose ARN has a name that can be known; several where it may be cut."""
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] in _KINDS:
            arn, actions, names = _KINDS[resource["Type"]]
            for name in names(stack, logical_id, resource["Properties"]):
                yield logical_id, arn.format(name=name, cluster=cluster), actions


def _whole_stack(key: str = "") -> Callable[[str, str, dict], list[str]]:
    return lambda stack, logical_id, properties: [properties.get(key) or f"{stack}-{logical_id}-{_RANDOM}"]


def _cut_stack(key: str, limit: int) -> Callable[[str, str, dict], list[str]]:
    """Both parts have half of what the limit leaves, or the stack has what a short logical id leaves over."""

    def names(stack: str, logical_id: str, properties: dict) -> list[str]:
        if key in properties:
            return [properties[key]]
        room = limit - len(_RANDOM) - 2
        fold = str.lower if key == "BucketName" else str
        parts = {room // 2, max(room // 2, room - len(logical_id))}
        return [fold(f"{stack[:part]}-{logical_id[: room - part]}-{_RANDOM}") for part in parts]

    return names


def _logical_id(text: str, key: str = "") -> Callable[[str, str, dict], list[str]]:
    return lambda stack, logical_id, properties: [properties.get(key) or text.format(logical_id)]


_KINDS: dict[str, tuple[str, list[str], Callable[[str, str, dict], list[str]]]] = {
    "AWS::CodeBuild::Project": (
        "arn:aws:codebuild:us-east-1:444444444444:project/{name}",
        ["codebuild:CreateProject", "codebuild:UpdateProject", "codebuild:DeleteProject"],
        _logical_id("{}-" + _RANDOM, "Name"),
    ),
    "AWS::CodePipeline::Pipeline": (
        "arn:aws:codepipeline:us-east-1:444444444444:{name}",
        ["codepipeline:CreatePipeline", "codepipeline:TagResource", "codepipeline:DeletePipeline"],
        _logical_id("", "Name"),
    ),
    "AWS::EKS::AccessEntry": (
        "arn:aws:eks:us-east-1:111111111111:access-entry/{cluster}/role/111111111111/{name}/0a1b",
        ["eks:DescribeAccessEntry", "eks:DeleteAccessEntry"],
        _logical_id("{}"),
    ),
    "AWS::EKS::Addon": (
        "arn:aws:eks:us-east-1:111111111111:addon/{cluster}/{name}/0a1b",
        ["eks:DescribeAddon", "eks:DeleteAddon"],
        _logical_id("", "AddonName"),
    ),
    "AWS::EKS::Cluster": (
        "arn:aws:eks:us-east-1:111111111111:cluster/{name}",
        ["eks:CreateAddon", "eks:CreateNodegroup", "eks:DeleteCluster"],
        _logical_id("", "Name"),
    ),
    "AWS::EKS::Nodegroup": (
        "arn:aws:eks:us-east-1:111111111111:nodegroup/{cluster}/{name}/0a1b",
        ["eks:DescribeNodegroup", "eks:DeleteNodegroup"],
        _logical_id("", "NodegroupName"),
    ),
    "AWS::IAM::Role": (
        "arn:aws:iam::111111111111:role/{name}",
        ["iam:CreateRole", "iam:GetRole", "iam:PutRolePolicy", "iam:DeleteRole"],
        _cut_stack("RoleName", 64),
    ),
    "AWS::KMS::Alias": (
        "arn:aws:kms:us-east-1:444444444444:{name}",
        ["kms:CreateAlias", "kms:UpdateAlias", "kms:DeleteAlias"],
        _logical_id("", "AliasName"),
    ),
    "AWS::Lambda::Function": (
        "arn:aws:lambda:us-east-1:111111111111:function:{name}",
        ["lambda:CreateFunction", "lambda:GetFunction", "lambda:InvokeFunction", "lambda:DeleteFunction"],
        _cut_stack("FunctionName", 64),
    ),
    "AWS::Lambda::LayerVersion": (
        "arn:aws:lambda:us-east-1:111111111111:layer:{name}:1",
        ["lambda:PublishLayerVersion", "lambda:GetLayerVersion", "lambda:DeleteLayerVersion"],
        _logical_id("{}"),
    ),
    "AWS::Logs::LogGroup": (
        # The service names the group as if it were a stream of it when a group is made.
        "arn:aws:logs:us-east-1:111111111111:log-group:{name}:log-stream:",
        ["logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:TagResource", "logs:DeleteLogGroup"],
        _whole_stack("LogGroupName"),
    ),
    "AWS::S3::Bucket": (
        "arn:aws:s3:::{name}",
        ["s3:CreateBucket", "s3:PutBucketPolicy", "s3:DeleteBucket"],
        _cut_stack("BucketName", 63),
    ),
    "AWS::SNS::Topic": (
        "arn:aws:sns:us-east-1:444444444444:{name}",
        ["sns:CreateTopic", "sns:Subscribe", "sns:Unsubscribe", "sns:DeleteTopic"],
        _whole_stack("TopicName"),
    ),
    "AWS::SSM::Parameter": (
        "arn:aws:ssm:us-east-1:111111111111:parameter/{name}",
        ["ssm:PutParameter", "ssm:GetParameters", "ssm:DeleteParameter"],
        _logical_id("CFN-{}-" + _RANDOM, "Name"),
    ),
    "AWS::StepFunctions::StateMachine": (
        "arn:aws:states:us-east-1:111111111111:stateMachine:{name}",
        ["states:CreateStateMachine", "states:DeleteStateMachine"],
        _logical_id("{}-" + _RANDOM, "StateMachineName"),
    ),
}
