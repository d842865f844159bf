"""Lets helm pull charts from Amazon ECR."""

import re

from aws_cdk import Stack, aws_iam as iam
from constructs.acknowledge import acknowledge

_PRIVATE = re.compile(r"oci://(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?:/(.+))?")


def allow_chart_pulls(role: iam.Role, *, repository: str | None, charts: tuple[str, ...]) -> None:
    """What the library's helm handler does for a repository in ECR, private or public; nothing for any other.

    It logs in and pulls; in a private registry `charts` are repositories under the path of `repository`.
    """
    if not repository:
        return
    if private := _PRIVATE.fullmatch(repository):
        account, region, path = private.groups()
        names = [f"{path}/{chart}" if path else chart for chart in charts]
        stack = Stack.of(role)
        arns = [f"arn:{stack.partition}:ecr:{region}:{account}:repository/{name}" for name in names]
        role.add_to_policy(iam.PolicyStatement(actions=["ecr:GetAuthorizationToken"], resources=["*"]))
        role.add_to_policy(iam.PolicyStatement(actions=["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"], resources=arns))
    elif repository.startswith("oci://public.ecr.aws/"):
        actions = ["ecr-public:GetAuthorizationToken", "sts:GetServiceBearerToken"]
        role.add_to_policy(iam.PolicyStatement(actions=actions, resources=["*"]))
    else:
        return
    acknowledge(role, "AwsSolutions-IAM5[Resource::*]", "A token for a registry is issued for all of it.")
