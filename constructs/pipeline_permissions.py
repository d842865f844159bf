"""Least privilege for the roles that CDK Pipelines makes."""

from typing import Any

from aws_cdk import Stack, aws_iam as iam, aws_s3 as s3
from constructs import Construct
from constructs.acknowledge import acknowledge

# The library lets every build write to a log group that CodeBuild would make and report tests; here builds log to a group
# of the stack and report nothing. Its role for assets may start builds, which the pipeline's role does.
_UNUSED = ("logs:CreateLogGroup", "codebuild:CreateReportGroup")
_UNUSED_BY_ASSETS = ("codebuild:StartBuild",)
_ARTIFACT_ACTIONS = (
    "kms:GenerateDataKey*",
    "kms:ReEncrypt*",
    "s3:Abort*",
    "s3:DeleteObject*",
    "s3:GetBucket*",
    "s3:GetObject*",
    "s3:List*",
)


def narrow_pipeline_permissions(
    pipeline: Construct, *, roles: list[iam.Role], buckets: list[s3.IBucket], key_aliases: dict[str, str]
) -> None:
    """Take away what no action of a built `pipeline` uses, and acknowledge the wildcards that remain.

    `roles` are the caller's own roles that builds of the pipeline run as; `key_aliases` are, by region, those of the keys
    that the buckets of other regions are encrypted with.
    """
    scopes: list[Construct] = [pipeline, *roles]
    for scope in scopes:
        for construct in scope.node.find_all():
            if isinstance(construct, iam.CfnPolicy):
                _drop(construct, _UNUSED + (_UNUSED_BY_ASSETS if "/Assets/" in construct.node.path else ()))
                _name_keys(construct, key_aliases)
        _acknowledge_artifacts(scope, buckets, key_aliases)
    stack = Stack.of(pipeline)
    update = pipeline.node.find_child("UpdatePipeline")
    acknowledge(
        update,
        f"AwsSolutions-IAM5[Resource::arn:*:iam::{stack.account}:role/*]",
        "The pipeline updates itself through roles of cdk bootstrap only: a condition on their tag allows no other.",
    )
    acknowledge(
        update,
        "AwsSolutions-IAM5[Resource::*]",
        "The CLI looks for its bootstrap stack and bucket before it knows their names; it reads no content.",
    )


def _drop(policy: iam.CfnPolicy, unused: tuple[str, ...]) -> None:
    document: dict[str, Any] = Stack.of(policy).resolve(policy.policy_document)
    kept = [statement for statement in document["Statement"] if not set(unused) & set(_actions(statement))]
    policy.policy_document = {**document, "Statement": kept}


def _name_keys(policy: iam.CfnPolicy, aliases: dict[str, str]) -> None:
    """The library knows a key of another region by its alias, which is no ARN of a key, and allows the use of all keys."""
    stack = Stack.of(policy)
    document: dict[str, Any] = policy.policy_document
    statements: list[dict[str, Any]] = []
    for statement in document["Statement"]:
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        if "*" in resources and all(action.startswith("kms:") for action in _actions(statement)):
            named = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": [f"alias/{alias}" for alias in aliases.values()]}}
            keys = [stack.format_arn(service="kms", region=region, resource="key", resource_name="*") for region in aliases]
            statements.append({**statement, "Resource": keys, "Condition": named})
            resources = [resource for resource in resources if resource != "*"]
        if resources:
            statements.append({**statement, "Resource": resources if len(resources) > 1 else resources[0]})
    policy.policy_document = {**document, "Statement": statements}


def _actions(statement: dict[str, Any]) -> list[str]:
    actions = statement["Action"]
    return [actions] if isinstance(actions, str) else actions


def _acknowledge_artifacts(scope: Construct, buckets: list[s3.IBucket], key_aliases: dict[str, str]) -> None:
    stack = Stack.of(scope)
    for action in _ARTIFACT_ACTIONS:
        acknowledge(
            scope,
            f"AwsSolutions-IAM5[Action::{action}]",
            "The library groups the reads and writes of artifacts so; they are limited to the pipeline's own bucket and key.",
        )
    for bucket in buckets:
        arn = Stack.of(scope).resolve(bucket.bucket_arn)
        name = arn if isinstance(arn, str) else f"<{'.'.join(arn['Fn::GetAtt'])}>"
        acknowledge(
            scope,
            f"AwsSolutions-IAM5[Resource::{name}/*]",
            "Artifacts have generated names; the bucket holds nothing but the artifacts and caches of this pipeline.",
        )
    for region in key_aliases:
        arn = f"arn:{stack.partition}:kms:{region}:{stack.account}:key/*"
        acknowledge(scope, f"AwsSolutions-IAM5[Resource::{arn}]", "A condition on the alias allows the pipeline's own key only.")
