"""One role for the functions that look things up before anything is made."""

from aws_cdk import aws_iam as iam, aws_logs as logs
from constructs import Construct
from constructs.acknowledge import acknowledge
from constructs.principal import principal

_READ_ACTIONS = [
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeRegions",
    "eks:DescribeClusterVersions",
]


class LookupRole(iam.Role):
    """Lambda with it may describe what EC2 and EKS offer and what runs in the region, and write to `log_group`.

    Shared by the functions that need these actions, so that the wildcard stands in one place of the template.
    """

    def __init__(self, scope: Construct, id: str, *, log_group: logs.ILogGroup) -> None:
        super().__init__(
            scope,
            id,
            description="Looks up instance types, zones, limits and versions before anything is made; read only",
            assumed_by=principal(iam.ServicePrincipal("lambda.amazonaws.com")),
        )
        log_group.grant_write(self)
        self.add_to_policy(iam.PolicyStatement(actions=_READ_ACTIONS, resources=["*"]))
        acknowledge(self, "AwsSolutions-IAM5[Resource::*]", "EC2 and EKS know no resource names for these six read actions.")
