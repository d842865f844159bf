"""One reader per resource type: the service's own answer, in the template's spelling.

A reader returns None, or raises, when the resource is not there. A type that has no reader is a problem, never a pass.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from local.delivery_readers import DELIVERY_READERS
from local.differences import differences

if TYPE_CHECKING:
    from local.account import Account

Reader = Callable[["Account", str, dict[str, Any]], Any]


def _ec2(operation: str, result: str, **arguments: str) -> Reader:
    """Reader over an EC2 Describe call: `arguments` maps its parameters to `id` or `ids`."""

    def read(account: Account, physical_id: str, _: dict[str, Any]) -> Any:
        given = {name: [physical_id] if kind == "ids" else physical_id for name, kind in arguments.items()}
        return next(iter(getattr(account.client("ec2"), operation)(**given)[result]), None)

    return read


def _vpc(account: Account, vpc: str, _: dict[str, Any]) -> Any:
    found = account.client("ec2").describe_vpcs(VpcIds=[vpc])["Vpcs"][0]
    for name in ("enableDnsSupport", "enableDnsHostnames"):
        answer = account.client("ec2").describe_vpc_attribute(VpcId=vpc, Attribute=name)
        found[name] = answer[name[0].upper() + name[1:]]["Value"]
    return found


def _nat(account: Account, nat: str, expected: dict[str, Any]) -> Any:
    found = account.client("ec2").describe_nat_gateways(NatGatewayIds=[nat])["NatGateways"]
    return next(({**entry, **entry["NatGatewayAddresses"][0]} for entry in found if entry["State"] == "available"), None)


def _eip(account: Account, public_ip: str, _: dict[str, Any]) -> Any:
    found = account.client("ec2").describe_addresses()["Addresses"]
    return next((address for address in found if address["PublicIp"] == public_ip), None)


def _flow_log(account: Account, flow_log: str, _: dict[str, Any]) -> Any:
    found = account.client("ec2").describe_flow_logs(FlowLogIds=[flow_log])["FlowLogs"]
    return {**found[0], "LogGroupName": found[0].get("LogDestination")} if found else None


def _route(account: Account, route: str, expected: dict[str, Any]) -> Any:
    table, destination = route.split("|")
    routes = account.client("ec2").describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
    found = next((entry for entry in routes if entry.get("DestinationCidrBlock") == destination), None)
    return found and {**found, "RouteTableId": table}


def _route_association(account: Account, association: str, _: dict[str, Any]) -> Any:
    tables = account.client("ec2").describe_route_tables()["RouteTables"]
    return next(
        (entry for table in tables for entry in table["Associations"] if entry["RouteTableAssociationId"] == association), None
    )


def _attachment(account: Account, attachment: str, _: dict[str, Any]) -> Any:
    vpc = attachment.split("|")[-1]
    for gateway in account.client("ec2").describe_internet_gateways()["InternetGateways"]:
        if any(entry["VpcId"] == vpc for entry in gateway["Attachments"]):
            return {**gateway, "VpcId": vpc}
    return None


def _security_group(account: Account, group: str, _: dict[str, Any]) -> Any:
    found = account.client("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"][0]

    def flat(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**rule, **target}
            for rule in rules
            for target in [*rule["IpRanges"], *rule["UserIdGroupPairs"], *rule["PrefixListIds"]]
        ]

    return {
        **found,
        "GroupDescription": found["Description"],
        "SecurityGroupIngress": flat(found["IpPermissions"]),
        "SecurityGroupEgress": flat(found["IpPermissionsEgress"]),
    }


def _rule(account: Account, rule: str, expected: dict[str, Any]) -> Any:
    found = account.client("ec2").describe_security_group_rules(SecurityGroupRuleIds=[rule])["SecurityGroupRules"]
    if not found:
        return None
    other = found[0].get("ReferencedGroupInfo", {}).get("GroupId")
    return {**found[0], "SourceSecurityGroupId": other, "DestinationSecurityGroupId": other, "CidrIp": found[0].get("CidrIpv4")}


def _launch_template(account: Account, template: str, _: dict[str, Any]) -> Any:
    ec2 = account.client("ec2")
    tags = ec2.describe_launch_templates(LaunchTemplateIds=[template])["LaunchTemplates"][0].get("Tags", [])
    latest = ec2.describe_launch_template_versions(LaunchTemplateId=template, Versions=["$Latest"])
    return {
        **latest["LaunchTemplateVersions"][0],
        "LatestVersionNumber": latest["LaunchTemplateVersions"][0]["VersionNumber"],
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}],
    }


def _cluster(account: Account, name: str, _: dict[str, Any]) -> Any:
    found = account.client("eks").describe_cluster(name=name)["cluster"]
    if found["status"] != "ACTIVE":
        return None
    enabled = [kind for entry in found["logging"]["clusterLogging"] if entry["enabled"] for kind in entry["types"]]
    return {**found, "logging": {"clusterLogging": {"enabledTypes": [{"type": kind} for kind in enabled]}}}


def _node_group(account: Account, name: str, expected: dict[str, Any]) -> Any:
    found = account.client("eks").describe_nodegroup(clusterName=expected["ClusterName"], nodegroupName=name)["nodegroup"]
    return found if found["status"] == "ACTIVE" else None


def _addon(account: Account, key: str, _: dict[str, Any]) -> Any:
    cluster, name = key.split("|")
    found = account.client("eks").describe_addon(clusterName=cluster, addonName=name)["addon"]
    associations = [
        account.client("eks").describe_pod_identity_association(clusterName=cluster, associationId=arn.rsplit("/", 1)[-1])[
            "association"
        ]
        for arn in found.get("podIdentityAssociations", [])
    ]
    return {**found, "podIdentityAssociations": associations} if found["status"] == "ACTIVE" else None


def _access_entry(account: Account, key: str, _: dict[str, Any]) -> Any:
    principal, cluster = key.rsplit("|", 1)
    where = {"clusterName": cluster, "principalArn": principal}
    policies = account.client("eks").list_associated_access_policies(**where)["associatedAccessPolicies"]
    return {**account.client("eks").describe_access_entry(**where)["accessEntry"], "accessPolicies": policies}


def _pod_identity(account: Account, arn: str, _: dict[str, Any]) -> Any:
    cluster, association = arn.split("/")[-2:]
    return account.client("eks").describe_pod_identity_association(clusterName=cluster, associationId=association)["association"]


def _role(account: Account, name: str, _: dict[str, Any]) -> Any:
    found = account.client("iam").get_role(RoleName=name)["Role"]
    attached = account.client("iam").list_attached_role_policies(RoleName=name)["AttachedPolicies"]
    return {**found, "ManagedPolicyArns": [policy["PolicyArn"] for policy in attached]}


def _policy(account: Account, _: str, expected: dict[str, Any]) -> Any:
    """An inline policy; it must be the same on every role that the template names."""
    name, roles = expected["PolicyName"], expected["Roles"]
    documents = [account.client("iam").get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"] for role in roles]
    return {**expected, "PolicyDocument": documents[0] if all(other == documents[0] for other in documents) else None}


def _key(account: Account, key: str, _: dict[str, Any]) -> Any:
    found = account.client("kms").describe_key(KeyId=key)["KeyMetadata"]
    if found["KeyState"] != "Enabled":
        return None  # a deleted key waits out its window, on AWS as here
    rotation = account.client("kms").get_key_rotation_status(KeyId=key)["KeyRotationEnabled"]
    policy = json.loads(account.client("kms").get_key_policy(KeyId=key, PolicyName="default")["Policy"])
    tags = account.client("kms").list_resource_tags(KeyId=key)["Tags"]
    return {**found, "EnableKeyRotation": rotation, "KeyPolicy": policy, "Tags": tags}


def _code(account: Account, place: dict[str, str] | None, digest: str) -> dict[str, str] | None:
    """The asset's place in S3, if what lies there is what Lambda has."""
    if not place:
        return None
    asset = account.client("s3").get_object(Bucket=place["S3Bucket"], Key=place["S3Key"])["Body"].read()
    return place if base64.b64encode(hashlib.sha256(asset).digest()).decode() == digest else None


def _function(account: Account, name: str, expected: dict[str, Any]) -> Any:
    answer = account.client("lambda").get_function(FunctionName=name)
    found = {**answer["Configuration"], "Arn": answer["Configuration"]["FunctionArn"], "Tags": answer.get("Tags", {})}
    layers = [layer["Arn"] for layer in found.get("Layers", [])]
    code = _code(account, expected.get("Code"), found["CodeSha256"])
    return {**found, "Layers": layers, "Code": code} if found["State"] == "Active" else None


def _layer(account: Account, arn: str, expected: dict[str, Any]) -> Any:
    found = account.client("lambda").get_layer_version_by_arn(Arn=arn)
    return {**found, "Content": _code(account, expected.get("Content"), found["Content"]["CodeSha256"])}


def _log_group(account: Account, name: str, _: dict[str, Any]) -> Any:
    found = account.client("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    tags = account.client("logs").list_tags_log_group(logGroupName=name)["tags"]
    return next(({**group, "Tags": tags} for group in found if group["logGroupName"] == name), None)


def _parameter(account: Account, name: str, _: dict[str, Any]) -> Any:
    return account.client("ssm").get_parameter(Name=name)["Parameter"]


def _state_machine(account: Account, arn: str, _: dict[str, Any]) -> Any:
    found = account.client("stepfunctions").describe_state_machine(stateMachineArn=arn)
    return {**found, "DefinitionString": found["definition"]}


def _helm_release(account: Account, _: str, expected: dict[str, Any]) -> Any:
    where = ("--namespace", expected["Namespace"], "--output", "json")
    wanted = (expected["Release"], f"{expected['Chart']}-{expected['Version']}", "deployed")
    if not any(
        (release["name"], release["chart"], release["status"]) == wanted for release in account.kube("helm", "list", *where) or []
    ):
        return None
    values = account.kube("helm", "get", "values", expected["Release"], *where)
    return expected if json.loads(expected["Values"]) == values else {**expected, "Values": values}


def _manifest(account: Account, _: str, expected: dict[str, Any]) -> Any:
    """Every object of the manifest as the cluster has it."""
    for item in json.loads(expected["Manifest"]):
        metadata = item["metadata"]
        found = account.kube(
            "kubectl", "get", item["kind"], metadata["name"], "-n", metadata.get("namespace", "default"), "-o", "json"
        )
        problems = ["not in the cluster"] if found is None else list(differences(item, found))
        if problems:
            raise LookupError(f"{item['kind']} {metadata['name']}: {problems}")
    return expected


def _gpu_zones(account: Account, physical_id: str, expected: dict[str, Any]) -> Any:
    """The choice must be the zones that the VPC's subnets are in."""
    chosen = physical_id.partition(":")[2].split(",")
    subnets = account.client("ec2").describe_subnets()["Subnets"]
    used = {subnet["AvailabilityZone"] for subnet in subnets if not subnet["DefaultForAz"]}
    zones = {f"Zone{number}": zone for number, zone in enumerate(chosen, start=1)}
    return {**expected, **zones} if set(chosen) == used else None


def _gpu_subnet(account: Account, physical_id: str, expected: dict[str, Any]) -> Any:
    subnet = physical_id.partition(":")[2]
    return expected if account.client("ec2").describe_subnets(SubnetIds=[subnet])["Subnets"] else None


def _made_nothing(_: Account, physical_id: str, expected: dict[str, Any]) -> Any:
    """A resource that only looks: what it saw is in its stack's outputs."""
    return expected if physical_id else None


NO_RESOURCE = ("AWS::CDK::Metadata",)
READERS: Mapping[str, Reader] = {
    "AWS::EC2::EIP": _eip,
    "AWS::EC2::FlowLog": _flow_log,
    "AWS::EC2::InternetGateway": _ec2("describe_internet_gateways", "InternetGateways", InternetGatewayIds="ids"),
    "AWS::EC2::LaunchTemplate": _launch_template,
    "AWS::EC2::NatGateway": _nat,
    "AWS::EC2::PlacementGroup": _ec2("describe_placement_groups", "PlacementGroups", GroupNames="ids"),
    "AWS::EC2::Route": _route,
    "AWS::EC2::RouteTable": _ec2("describe_route_tables", "RouteTables", RouteTableIds="ids"),
    "AWS::EC2::SecurityGroup": _security_group,
    "AWS::EC2::SecurityGroupEgress": _rule,
    "AWS::EC2::SecurityGroupIngress": _rule,
    "AWS::EC2::Subnet": _ec2("describe_subnets", "Subnets", SubnetIds="ids"),
    "AWS::EC2::SubnetRouteTableAssociation": _route_association,
    "AWS::EC2::VPC": _vpc,
    "AWS::EC2::VPCEndpoint": _ec2("describe_vpc_endpoints", "VpcEndpoints", VpcEndpointIds="ids"),
    "AWS::EC2::VPCGatewayAttachment": _attachment,
    "AWS::EKS::AccessEntry": _access_entry,
    "AWS::EKS::Addon": _addon,
    "AWS::EKS::Cluster": _cluster,
    "AWS::EKS::Nodegroup": _node_group,
    "AWS::EKS::PodIdentityAssociation": _pod_identity,
    "AWS::IAM::Policy": _policy,
    "AWS::IAM::Role": _role,
    "AWS::KMS::Key": _key,
    "AWS::Lambda::Function": _function,
    "AWS::Lambda::LayerVersion": _layer,
    "AWS::Logs::LogGroup": _log_group,
    "AWS::SSM::Parameter": _parameter,
    "AWS::StepFunctions::StateMachine": _state_machine,
    "Custom::AWSCDK-EKS-HelmChart": _helm_release,
    "Custom::AWSCDK-EKS-KubernetesResource": _manifest,
    "Custom::GpuSubnet": _gpu_subnet,
    "Custom::GpuZones": _gpu_zones,
    "Custom::Preflight": _made_nothing,
    "Custom::RayServiceTeardown": _made_nothing,
    "Custom::Verification": _made_nothing,
    **DELIVERY_READERS,
}
# Properties that the services' answers do not show, on AWS either.
NOT_SHOWN: Mapping[str, tuple[str, ...]] = {
    "AWS::CodePipeline::Pipeline": ("RestartExecutionOnUpdate",),
    "AWS::EC2::FlowLog": ("ResourceType",),
    "AWS::EKS::Addon": ("ResolveConflicts",),
    "AWS::EKS::Cluster": ("BootstrapSelfManagedAddons",),
    "AWS::KMS::Key": ("PendingWindowInDays",),
    # Tags stand elsewhere on AWS too; the other two ministack does not keep.
    "AWS::StepFunctions::StateMachine": ("Tags", "LoggingConfiguration", "TracingConfiguration"),
}
