"""A Lambda function for a custom resource, with no permission beyond its log group."""

from aws_cdk import Duration, aws_iam as iam, aws_lambda as lambda_, aws_logs as logs
from constructs import Construct


class HandlerFunction(lambda_.Function):
    """A Python handler whose role may write to one log group that the caller owns, and nothing else.

    Logs go to a log group of the stack instead of the one Lambda makes on first use, which no stack would remove.
    Grant whatever else the handler needs on `role`.
    """

    def __init__(
        self, scope: Construct, id: str, *, description: str, asset: str, log_group: logs.ILogGroup, timeout: Duration
    ) -> None:
        role = handler_role(scope, f"{id}Role", description=f"Runs: {description}", log_group=log_group)
        super().__init__(
            scope,
            id,
            description=description,
            code=lambda_.Code.from_asset(asset, exclude=["__pycache__", "*.pyc"]),
            handler="index.handler",
            runtime=lambda_.Runtime.determine_latest_python_runtime(scope),
            role=role,
            timeout=timeout,
            memory_size=256,
            log_group=log_group,
        )


def handler_role(scope: Construct, id: str, *, description: str, log_group: logs.ILogGroup) -> iam.Role:
    """A role that Lambda assumes and that may write to `log_group`."""
    role = iam.Role(scope, id, description=description, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    log_group.grant_write(role)
    return role


def allow_vpc(role: iam.Role) -> None:
    """Let a function with this role run in subnets of a VPC."""
    role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name("service-role/AWSLambdaVPCAccessExecutionRole"))
