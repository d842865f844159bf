"""A Lambda function for a custom resource, with no permission beyond its log group."""

from typing import cast

from aws_cdk import CfnResource, Duration, aws_ec2 as ec2, aws_iam as iam, aws_lambda as lambda_, aws_logs as logs
from constructs import Construct
from constructs.acknowledge import acknowledge_managed_policy
from constructs.principal import principal

INVOKE_ACTIONS = ["lambda:GetFunction", "lambda:InvokeFunction"]
"""What the provider framework does with a handler: wait until it is active, then invoke it."""


class HandlerFunction(lambda_.Function):
    """A Python handler whose role may write to one log group that the caller owns, and nothing else.

    Logs go to a log group of the stack instead of the one Lambda makes on first use, which no stack would remove.
    Grant whatever else the handler needs on `role`, or hand in a role that has it. `asset` is the folder that holds the
    module of `handler`: for a handler of several files the construct's own folder, since these import one another as a
    package.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        description: str,
        asset: str,
        log_group: logs.ILogGroup,
        timeout: Duration,
        handler: str = "index.handler",
        role: iam.Role | None = None,
        vpc: ec2.IVpc | None = None,
        security_groups: list[ec2.ISecurityGroup] | None = None,
    ) -> None:
        role = role or handler_role(scope, f"{id}Role", description=f"Runs: {description}", log_group=log_group)
        super().__init__(
            scope,
            id,
            description=description,
            code=lambda_.Code.from_asset(asset, exclude=["__pycache__", "*.pyc", "construct.py"]),
            handler=handler,
            vpc=vpc,
            security_groups=security_groups,
            runtime=lambda_.Runtime.PYTHON_3_14,
            role=role,
            timeout=timeout,
            memory_size=256,
            log_group=log_group,
        )
        depend_on_policy_alone(self, role)


def handler_role(scope: Construct, id: str, *, description: str, log_group: logs.ILogGroup) -> iam.Role:
    """A role that Lambda assumes and that may write to `log_group`."""
    role = iam.Role(scope, id, description=description, assumed_by=principal(iam.ServicePrincipal("lambda.amazonaws.com")))
    log_group.grant_write(role)
    return role


def framework_role(
    scope: Construct, id: str, *, description: str, log_group: logs.ILogGroup, handlers: list[lambda_.Function]
) -> iam.Role:
    """A role for the provider framework that may invoke `handlers`.

    Hand it over `without_policy_updates`, or the library adds every version of them.
    """
    role = handler_role(scope, id, description=description, log_group=log_group)
    role.add_to_policy(iam.PolicyStatement(actions=INVOKE_ACTIONS, resources=[handler.function_arn for handler in handlers]))
    return role


_VPC_POLICY = "service-role/AWSLambdaVPCAccessExecutionRole"


def allow_vpc(role: iam.Role) -> None:
    """Let a function with this role run in subnets of a VPC; `accept_vpc` on a construct around it says why."""
    policy = iam.ManagedPolicy.from_aws_managed_policy_name(_VPC_POLICY)
    cast(iam.CfnRole, role.node.default_child).managed_policy_arns = [policy.managed_policy_arn]


def accept_vpc(scope: Construct) -> None:
    """Accept the policy of `allow_vpc` for all functions of `scope`."""
    reason = "Lambda manages the network interfaces of a function in a VPC, and EC2 knows no resource names for them."
    acknowledge_managed_policy(scope, _VPC_POLICY, reason)


def depend_on_policy_alone(user: lambda_.Function | CfnResource, role: iam.Role) -> None:
    """Drop DependsOn on the role of a function or another resource, which its property for the role implies; keep the one
    on the role's policy."""
    policy = cast(iam.CfnPolicy, role.node.find_child("DefaultPolicy").node.default_child)
    resource = user if isinstance(user, CfnResource) else cast(lambda_.CfnFunction, user.node.default_child)
    resource.add_override("DependsOn", [policy.logical_id])
