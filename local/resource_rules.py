"""What the real services refuse and ministack lets pass, for the added and the built-in resource types.

Everything here raises ValueError, which the engine reports in the stack event before it rolls back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ministack.core.responses import get_account_id
from ministack.services import ec2, eks, iam, kms, lambda_svc, s3, sns
from ministack.services.cloudformation import provisioners

from local import bucket_settings
from local.code_build import PROJECT
from local.code_pipeline import PIPELINE
from local.instance_offerings import InstanceOfferings
from local.notification_rules import NOTIFICATION_RULE
from local.resource_schemas import ResourceSchemas
from local.resource_types import ADDED_TYPES, Properties, camel

# Services that look up what a property names when they get the call.
_LOOKING_UP = ("AWS::EC2::", "AWS::EKS::", "AWS::KMS::Alias", "AWS::Lambda::")
_STORES = {
    "vpc": "_vpcs",
    "subnet": "_subnets",
    "sg": "_security_groups",
    "rtb": "_route_tables",
    "igw": "_internet_gateways",
    "nat": "_nat_gateways",
    "eipalloc": "_addresses",
    "lt": "_launch_templates",
}


class ResourceRules:
    """Installs the added types, then wraps every AWS type of the engine's table with the rules."""

    def __init__(self, *, schemas: ResourceSchemas, offerings: InstanceOfferings) -> None:
        self._schemas = schemas
        self._offerings = offerings

    def install(self) -> None:
        """Call once, before the emulator serves."""
        for added in (*ADDED_TYPES, PIPELINE, PROJECT, NOTIFICATION_RULE):
            added.install(create_only=self._schemas.names(added.name, "createOnlyProperties"))
        for name, handler in list(provisioners._RESOURCE_HANDLERS.items()):
            if name.startswith("AWS::CloudFormation::"):
                continue
            provisioners._RESOURCE_HANDLERS[name] = self._wrapped(name, handler)

    def _wrapped(self, name: str, handler: dict[str, Any]) -> dict[str, Any]:
        wrapped = dict(handler)

        def create(logical_id: str, properties: Properties, stack: str) -> tuple[str, dict[str, str]]:
            self._check(name, logical_id, properties)
            physical_id, attributes = handler["create"](logical_id, properties, stack)
            self._complete(name, physical_id, properties, attributes)
            return physical_id, attributes

        def update(physical_id: str, old: Properties, new: Properties, stack: str, logical_id: str = "") -> tuple:
            self._check(name, logical_id or physical_id, new)
            arguments = (logical_id,) if handler.get("update_with_logical_id") else ()
            updated, attributes = handler["update"](physical_id, old, new, stack, *arguments)
            self._complete(name, updated, new, attributes)
            return updated, attributes

        def delete(physical_id: str, properties: Properties, *rest: Any) -> None:
            self._check_delete(name, physical_id, properties)
            handler["delete"](physical_id, properties, *rest)

        wrapped["create"] = create
        if "update" in handler:
            wrapped["update"] = update
        if "delete" in handler:
            wrapped["delete"] = delete
        return wrapped

    # --- before a create or an update ------------------------------------------------------------------------------

    def _check(self, name: str, logical_id: str, properties: Properties) -> None:
        self._schemas.check(name, logical_id, properties)
        if name.startswith(_LOOKING_UP):
            for value in _strings(properties):
                _check_exists(value)
        if name == "AWS::EKS::Nodegroup":
            self._check_node_group(properties)
        if name == "AWS::S3::BucketPolicy" and s3._bucket_owner_account(properties["Bucket"]) is None:
            _refuse(f"The specified bucket {properties['Bucket']} does not exist", "NoSuchBucket")
        topics = {"AWS::SNS::TopicPolicy": properties.get("Topics"), "AWS::SNS::Subscription": [properties.get("TopicArn")]}
        for topic in topics.get(name) or []:
            if topic not in sns._topics:
                _refuse(f"Topic {topic} does not exist", "NotFound")

    def _check_node_group(self, properties: Properties) -> None:
        """The documented limits of a managed node group with a launch template, and the offered zones."""
        data: dict[str, Any] = {}
        reference = properties.get("LaunchTemplate")
        if reference:
            data = _launch_template_data(reference)
            for forbidden, where in (("DiskSize", "disk size"), ("RemoteAccess", "remote access")):
                if properties.get(forbidden):
                    _refuse(f"{where} must be specified in the launch template, not on the node group")
            if data.get("IamInstanceProfile"):
                _refuse("Launch template should not specify an instance profile")
            if (data.get("InstanceMarketOptions") or {}).get("MarketType"):
                _refuse("Launch template should not specify instance market options")
            if data.get("InstanceType") and properties.get("InstanceTypes"):
                _refuse("You cannot specify an instance type in both the launch template and the node group")
            interfaces = data.get("NetworkInterfaces") or []
            if any(interface.get("SubnetId") for interface in interfaces):
                _refuse("Launch template should not specify a subnet")
            if interfaces and (data.get("SecurityGroupIds") or data.get("SecurityGroups")):
                _refuse("Network interfaces and an instance-level security groups may not be specified together")
            if len(interfaces) > 1 and any(str(i.get("AssociatePublicIpAddress")).lower() == "true" for i in interfaces):
                _refuse("The associatePublicIPAddress parameter cannot be specified with several network interfaces")
            group = (data.get("Placement") or {}).get("GroupName")
            if group and group not in ec2._placement_groups:
                _refuse(f"The placement group '{group}' is unknown")
        types = properties.get("InstanceTypes") or [data.get("InstanceType") or "t3.medium"]
        for subnet in properties["Subnets"]:
            zone = ec2._subnets[subnet]["AvailabilityZone"]
            for instance_type in types:
                if zone not in self._offerings.zones(instance_type):
                    _refuse(
                        f"Your requested instance type ({instance_type}) is not supported in your requested "
                        f"Availability Zone ({zone})"
                    )

    # --- after a create or an update -------------------------------------------------------------------------------

    def _complete(self, name: str, physical_id: str, properties: Properties, attributes: dict[str, str]) -> None:
        """Keep what ministack drops, so that the service's own API answers what was asked for."""
        if name == "AWS::EKS::Cluster":
            cluster = eks._clusters[physical_id]
            cluster["encryptionConfig"] = camel(properties.get("EncryptionConfig") or [])
            cluster["upgradePolicy"] = camel(properties.get("UpgradePolicy") or {"SupportType": "EXTENDED"})
            for name_ in ("ComputeConfig", "StorageConfig"):
                if properties.get(name_):
                    cluster[name_[0].lower() + name_[1:]] = camel(properties[name_])
            cluster["deletionProtection"] = str(properties.get("DeletionProtection", "false")).lower() == "true"
            cluster["kubernetesNetworkConfig"].update(camel(properties.get("KubernetesNetworkConfig") or {}))
            cluster["accessConfig"].update(camel(properties.get("AccessConfig") or {}))
            group = cluster["resourcesVpcConfig"].get("clusterSecurityGroupId")
            if group not in ec2._security_groups:
                group = self._cluster_security_group(physical_id, cluster)
            attributes["ClusterSecurityGroupId"] = group
            attributes["EncryptionConfigKeyArn"] = next((entry["provider"]["keyArn"] for entry in cluster["encryptionConfig"]), "")
        if name == "AWS::Lambda::Function" and properties.get("VpcConfig"):
            vpc = ec2._subnets[properties["VpcConfig"]["SubnetIds"][0]]["VpcId"]
            lambda_svc._functions[physical_id]["config"]["VpcConfig"] = {**properties["VpcConfig"], "VpcId": vpc}
        if name == "AWS::S3::Bucket":
            bucket_settings.keep(physical_id, properties)
        if name == "AWS::EKS::Nodegroup":
            group_record = eks._nodegroups[f"{properties['ClusterName']}/{physical_id}"]
            group_record["capacityType"] = properties.get("CapacityType", "ON_DEMAND")
            group_record["nodeRepairConfig"] = camel(properties.get("NodeRepairConfig") or {"Enabled": False})
            attributes["Id"] = f"{properties['ClusterName']}/{physical_id}"

    @staticmethod
    def _cluster_security_group(name: str, cluster: dict[str, Any]) -> str:
        """EKS makes one group per cluster, whose members may talk to each other, and owns it until the end."""
        subnets = cluster["resourcesVpcConfig"]["subnetIds"]
        vpc = ec2._subnets[subnets[0]]["VpcId"]
        if len({ec2._subnets[subnet]["AvailabilityZone"] for subnet in subnets}) < 2:
            eks._clusters.pop(name)
            _refuse("Subnets specified must be in at least two different AZs")
        group = ec2._new_sg_id()
        to_itself = {
            "IpProtocol": "-1",
            "IpRanges": [],
            "Ipv6Ranges": [],
            "PrefixListIds": [],
            "UserIdGroupPairs": [{"GroupId": group, "UserId": get_account_id()}],
        }
        everywhere = {**to_itself, "IpRanges": [{"CidrIp": "0.0.0.0/0"}], "UserIdGroupPairs": []}
        ec2._security_groups[group] = {
            "GroupId": group,
            "GroupName": f"eks-cluster-sg-{name}",
            "VpcId": vpc,
            "OwnerId": get_account_id(),
            "Description": "EKS created security group",
            "IpPermissions": [dict(to_itself)],
            "IpPermissionsEgress": [everywhere, dict(to_itself)],
        }
        cluster["resourcesVpcConfig"].update(clusterSecurityGroupId=group, vpcId=vpc)
        return group

    # --- before a delete -------------------------------------------------------------------------------------------

    def _check_delete(self, name: str, physical_id: str, properties: Properties) -> None:
        if name in ("AWS::EC2::SecurityGroup", "AWS::EC2::Subnet"):
            users = sorted(_users(physical_id))
            if users:
                _refuse(f"resource {physical_id} has a dependent object: {', '.join(users)}", "DependencyViolation")
        if name == "AWS::EC2::VPCGatewayAttachment":
            nats = [
                nat["NatGatewayId"]
                for nat in ec2._nat_gateways.values()
                if nat["VpcId"] == properties["VpcId"] and nat["State"] != "deleted" and nat["AllocationId"]
            ]
            if nats:
                _refuse(
                    f"Network {properties['VpcId']} has some mapped public address(es): {', '.join(nats)}",
                    "DependencyViolation",
                )
        if name == "AWS::EC2::InternetGateway" and ec2._internet_gateways[physical_id]["Attachments"]:
            _refuse(f"The internetGateway '{physical_id}' has dependencies", "DependencyViolation")
        if name == "AWS::EC2::RouteTable" and ec2._route_tables[physical_id]["Associations"]:
            _refuse(f"The routeTable '{physical_id}' has dependencies", "DependencyViolation")
        if name == "AWS::EC2::PlacementGroup" and any(
            physical_id == ((_launch_template_data(group["launchTemplate"]).get("Placement") or {}).get("GroupName"))
            for group in eks._nodegroups.values()
            if group.get("launchTemplate")
        ):
            _refuse(f"The placement group {physical_id} is in use", "InvalidPlacementGroup.InUse")
        if name == "AWS::S3::Bucket" and s3._buckets[physical_id]["objects"]:
            _refuse(f"The bucket {physical_id} you tried to delete is not empty", "BucketNotEmpty")
        if name == "AWS::EKS::Cluster":
            attached = [key for key in eks._nodegroups if key.startswith(f"{physical_id}/")]
            if attached:
                _refuse(f"Cluster has nodegroups attached: {', '.join(attached)}", "ResourceInUseException")
            cluster = eks._clusters.get(physical_id)
            if cluster:
                group = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]
                others = sorted(user for user in _users(group) if not user.startswith("cluster "))
                if others:
                    _refuse(f"resource {group} has a dependent object: {', '.join(others)}", "DependencyViolation")
                ec2._security_groups.pop(group, None)


def _refuse(message: str, code: str = "InvalidRequestException") -> None:
    raise ValueError(f"{message} (Error Code: {code})")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _check_exists(value: str) -> None:
    """Refuse an identifier or ARN of this account that names nothing."""
    identifier = re.fullmatch(r"(vpc|subnet|sg|rtb|igw|nat|eipalloc|lt)-[0-9a-z]{8,17}", value)
    if identifier and value not in getattr(ec2, _STORES[identifier[1]]):
        _refuse(f"The ID '{value}' does not exist", f"Invalid{identifier[1].capitalize()}ID.NotFound")
    arn = re.fullmatch(rf"arn:aws[\w-]*:(iam|kms):[\w-]*:{get_account_id()}:(role|key)/(\S+)", value)
    if arn and arn[1] == "iam" and arn[3].rsplit("/", 1)[-1] not in iam._roles:
        _refuse(f"The role {value} cannot be found", "NoSuchEntity")
    if arn and arn[1] == "kms" and (kms._resolve_key(value) or {}).get("KeyState") == "PendingDeletion":
        _refuse(f"{value} is pending deletion", "KMSInvalidStateException")
    if arn and arn[1] == "kms" and not kms._resolve_key(value):
        _refuse(f"Key '{value}' does not exist", "NotFoundException")


def _launch_template_data(reference: dict[str, Any]) -> dict[str, Any]:
    """The data of the referenced version; the reference in CloudFormation's or the API's spelling."""
    given = {key[0].lower() + key[1:]: str(value) for key, value in reference.items()}
    for template in ec2._launch_templates.values():
        if given.get("id") == template["LaunchTemplateId"] or given.get("name") == template["LaunchTemplateName"]:
            wanted = given.get("version", "$Default")
            wanted = str(
                {"$Default": template["DefaultVersionNumber"], "$Latest": template["LatestVersionNumber"]}.get(wanted, wanted)
            )
            for version in template["Versions"]:
                if str(version["VersionNumber"]) == wanted:
                    return version["LaunchTemplateData"]
            _refuse(f"Launch template version {wanted} does not exist", "InvalidLaunchTemplateId.VersionNotFound")
    _refuse(
        f"The specified launch template, with template ID {given.get('id') or given.get('name')}, does not exist",
        "InvalidLaunchTemplateId.NotFound",
    )
    raise AssertionError


def _users(resource_id: str) -> Iterator[str]:
    """The living things that hold a network interface in a subnet or with a group, or name the group in a rule."""
    holders: list[tuple[str, Any]] = [
        *((f"cluster {name}", record["resourcesVpcConfig"]) for name, record in eks._clusters.items()),
        *((f"node group {name}", record["subnets"]) for name, record in eks._nodegroups.items()),
        *((f"function {name}", record["config"].get("VpcConfig")) for name, record in lambda_svc._functions.items()),
        *((f"endpoint {name}", [record["SubnetIds"], record["SecurityGroupIds"]]) for name, record in ec2._vpc_endpoints.items()),
        *(
            (f"NAT gateway {name}", record["SubnetId"])
            for name, record in ec2._nat_gateways.items()
            if record["State"] != "deleted"
        ),
        *(
            (f"group {name}", [record["IpPermissions"], record["IpPermissionsEgress"]])
            for name, record in ec2._security_groups.items()
            if name != resource_id
        ),
    ]
    for name, record in holders:
        if f'"{resource_id}"' in json.dumps(record, default=str):
            yield name
