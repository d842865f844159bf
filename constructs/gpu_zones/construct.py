"""Availability zones chosen at deploy time by what EC2 offers there."""

from pathlib import Path
from typing import cast

from aws_cdk import (
    CustomResource,
    Duration,
    aws_ec2 as ec2,
    aws_iam as iam,
    aws_lambda as lambda_,
    aws_logs as logs,
    custom_resources as cr,
)
from constructs import Construct
from constructs.acknowledge import acknowledge
from constructs.handler_function import HandlerFunction, depend_on_policy_alone, framework_role

_HANDLER = Path(__file__).parent / "handler"


class GpuZones(Construct):
    """The zones for a VPC that must hold GPU nodes, and later the subnet among them that takes those nodes.

    Guarantees: zones that offer `instance_type` come first, sorted; zones in which EKS has no control plane are left
    out, and so are those without `system_instance_type`, whose nodes spread over all zones; `wanted_zone` wins. Zones
    are chosen once and then kept whatever changes, so no update moves a subnet. When no zone qualifies, the deployment
    fails within a minute with the zones and regions that do offer the type.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        instance_type: str,
        system_instance_type: str,
        wanted_zone: str | None,
        count: int,
        log_group: logs.ILogGroup,
    ) -> None:
        super().__init__(scope, id)
        self._placement = {"InstanceType": instance_type, "WantedZone": wanted_zone or ""}
        function = HandlerFunction(
            self,
            "Handler",
            description="Finds the availability zones and the subnet for the GPU nodes",
            asset=str(_HANDLER),
            log_group=log_group,
            timeout=Duration.minutes(2),
        )
        function.add_to_role_policy(
            iam.PolicyStatement(
                actions=["ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeRegions"],
                resources=["*"],
            )
        )
        acknowledge(self, "AwsSolutions-IAM5[Resource::*]", "EC2 knows no resource-level permissions for these three read actions.")
        role = framework_role(
            self,
            "ProviderRole",
            description="Runs the provider framework of the GPU zone finder",
            log_group=log_group,
            handlers=[function],
        )
        self._provider = cr.Provider(
            self, "Provider", on_event_handler=function, log_group=log_group, framework_on_event_role=role.without_policy_updates()
        )
        depend_on_policy_alone(cast(lambda_.Function, self._provider.node.find_child("framework-onEvent")), role)
        zones = CustomResource(
            self,
            "Zones",
            resource_type="Custom::GpuZones",
            service_token=self._provider.service_token,
            service_timeout=Duration.minutes(3),
            properties={**self._placement, "SystemInstanceType": system_instance_type, "Count": count},
        )
        self.zones = [zones.get_att_string(f"Zone{number}") for number in range(1, count + 1)]
        """Tokens for the zone names, one per subnet."""

    def subnet_for_gpu_nodes(self, subnets: list[ec2.ISubnet]) -> tuple[str, str]:
        """Tokens for the id and the zone of the subnet that takes the GPU nodes; `subnets` in the order of `zones`."""
        chosen = CustomResource(
            self,
            "Subnet",
            resource_type="Custom::GpuSubnet",
            service_token=self._provider.service_token,
            service_timeout=Duration.minutes(3),
            properties={**self._placement, "SubnetIds": [subnet.subnet_id for subnet in subnets], "Zones": self.zones},
        )
        return chosen.get_att_string("SubnetId"), chosen.get_att_string("Zone")
