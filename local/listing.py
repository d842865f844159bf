"""What the services list: the account's inventory, whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One List or Describe operation; `names` reads it to its last page.

    `alive` leaves out what a service goes on listing for a while after its deletion, on AWS as here.
    """

    kind: str
    service: str
    operation: str
    result: str
    name: str
    alive: Callable[[Any, dict[str, Any]], bool] = lambda client, item: True

    def names(self, client: Any) -> list[str]:
        """Identifiers of what exists."""
        if client.can_paginate(self.operation):
            pages = client.get_paginator(self.operation).paginate()
        else:
            pages = [getattr(client, self.operation)()]
        items = [item if isinstance(item, dict) else {self.name: item} for page in pages for item in page[self.result]]
        return [item[self.name] for item in items if self.alive(client, item)]


def _listing(kind: str, service: str, operation: str, result: str, name: str, **more: Any) -> Listing:
    return Listing(kind=kind, service=service, operation=operation, result=result, name=name, **more)


LISTINGS = (
    _listing("address", "ec2", "describe_addresses", "Addresses", "AllocationId"),
    _listing("flow log", "ec2", "describe_flow_logs", "FlowLogs", "FlowLogId"),
    _listing("internet gateway", "ec2", "describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    _listing("launch template", "ec2", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    _listing(
        "NAT gateway",
        "ec2",
        "describe_nat_gateways",
        "NatGateways",
        "NatGatewayId",
        alive=lambda _, item: item["State"] != "deleted",
    ),
    _listing("network interface", "ec2", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
    _listing("placement group", "ec2", "describe_placement_groups", "PlacementGroups", "GroupName"),
    _listing("route table", "ec2", "describe_route_tables", "RouteTables", "RouteTableId"),
    _listing("security group", "ec2", "describe_security_groups", "SecurityGroups", "GroupId"),
    _listing("subnet", "ec2", "describe_subnets", "Subnets", "SubnetId"),
    _listing("volume", "ec2", "describe_volumes", "Volumes", "VolumeId"),
    _listing("vpc", "ec2", "describe_vpcs", "Vpcs", "VpcId"),
    _listing("vpc endpoint", "ec2", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    _listing("cluster", "eks", "list_clusters", "clusters", "name"),
    _listing("build project", "codebuild", "list_projects", "projects", "name"),
    _listing("pipeline", "codepipeline", "list_pipelines", "pipelines", "name"),
    _listing("notification rule", "codestar-notifications", "list_notification_rules", "NotificationRules", "Arn"),
    _listing("function", "lambda", "list_functions", "Functions", "FunctionName"),
    _listing("layer", "lambda", "list_layers", "Layers", "LayerName"),
    _listing("log group", "logs", "describe_log_groups", "logGroups", "logGroupName"),
    _listing("role", "iam", "list_roles", "Roles", "RoleName"),
    _listing("identity provider", "iam", "list_open_id_connect_providers", "OpenIDConnectProviderList", "Arn"),
    _listing("instance profile", "iam", "list_instance_profiles", "InstanceProfiles", "InstanceProfileName"),
    _listing(
        "key",
        "kms",
        "list_keys",
        "Keys",
        "KeyId",
        # A deleted key waits out its window.
        alive=lambda client, item: client.describe_key(KeyId=item["KeyId"])["KeyMetadata"]["KeyState"] != "PendingDeletion",
    ),
    _listing("key alias", "kms", "list_aliases", "Aliases", "AliasName"),
    _listing("topic", "sns", "list_topics", "Topics", "TopicArn"),
    _listing("subscription", "sns", "list_subscriptions", "Subscriptions", "SubscriptionArn"),
    _listing("bucket", "s3", "list_buckets", "Buckets", "Name"),
    _listing("parameter", "ssm", "describe_parameters", "Parameters", "Name"),
    _listing("stack", "cloudformation", "describe_stacks", "Stacks", "StackName"),
    _listing("state machine", "stepfunctions", "list_state_machines", "stateMachines", "name"),
)
