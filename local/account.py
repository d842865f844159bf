"""What the emulated account really holds, read through the services' own APIs and held against the templates."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from local.emulator import ACCOUNT, Emulator

Reader = Callable[["Account", str, dict[str, Any]], Any]
UNKNOWN = object()  # a value that only the engine can compute, such as Fn::GetAtt


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One resource of one template; `problem` is empty when the service's answer agrees with the template."""

    stack: str
    logical_id: str
    type: str
    physical_id: str
    status: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Reads only. A resource type that no reader knows is a problem, never a pass."""

    emulator: Emulator
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """A boto3 client that talks to the emulator."""
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                endpoint_url=self.emulator.endpoint,
                region_name=self.emulator.region,
                aws_access_key_id=ACCOUNT,
                aws_secret_access_key="local",
            )
        return self._clients[service]

    def outputs(self, assembly: Path) -> dict[str, dict[str, str]]:
        """Outputs by stack."""
        return {
            stack: {output["OutputKey"]: output["OutputValue"] for output in self._stack(stack).get("Outputs", [])}
            for stack in templates(assembly)
        }

    def compare(self, assembly: Path) -> list[Row]:
        """One row per resource of every template, in the order of the templates."""
        exports = {
            export["Name"]: export["Value"]
            for page in self.client("cloudformation").get_paginator("list_exports").paginate()
            for export in page["Exports"]
        }
        rows = []
        for stack, template in templates(assembly).items():
            pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
            deployed = {entry["LogicalResourceId"]: entry for page in pages for entry in page["StackResourceSummaries"]}
            known = {name: entry["PhysicalResourceId"] for name, entry in deployed.items()}
            for logical_id, resource in template["Resources"].items():
                entry = deployed.pop(logical_id, None)
                physical_id, status = (entry["PhysicalResourceId"], entry["ResourceStatus"]) if entry else ("", "missing")
                expected = self._resolve(resource.get("Properties", {}), known, exports, stack)
                rows.append(
                    Row(
                        stack=stack,
                        logical_id=logical_id,
                        type=resource["Type"],
                        physical_id=physical_id,
                        status=status,
                        problem=self._problem(resource["Type"], physical_id, status, expected),
                    )
                )
            rows += [
                Row(
                    stack=stack,
                    logical_id=name,
                    type=entry["ResourceType"],
                    problem="not in the template",
                    physical_id=entry["PhysicalResourceId"],
                    status=entry["ResourceStatus"],
                )
                for name, entry in deployed.items()
            ]
        return rows

    def inventory(self) -> set[str]:
        """Everything the services list, as "kind id": what a destroy must bring back to what was there before."""
        found = set()
        for kind, listing in LISTINGS.items():
            found |= {f"{kind} {name}" for name in listing(self)}
        for file in self.emulator.kube_state.glob("*.json"):
            held = json.loads(file.read_text())
            found |= {f"kubernetes {key}" for group in ("objects", "releases") for key in held.get(group, {})}
        return found

    def gone(self, rows: list[Row]) -> list[Row]:
        """The rows of an earlier compare whose resource a service still shows."""
        left = []
        for row in rows:
            if row.type in NO_RESOURCE or row.type.startswith("Custom::"):
                continue  # what custom resources made is in the inventory
            try:
                if READERS[row.type](self, row.physical_id, {}) is not None:
                    left.append(row)
            except (ClientError, LookupError):
                continue
        return left

    def kube(self, *arguments: str) -> Any:
        """Ask kubectl or helm (real or stand-in) with the kubeconfig that the last handler used; JSON or None."""
        tool, *rest = arguments
        answer = subprocess.run(
            [self.emulator.kube_bin / tool, *rest, "--kubeconfig", str(self.emulator.folder / "tmp" / "kubeconfig")],
            env={**self.emulator.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def _stack(self, name: str) -> dict[str, Any]:
        return self.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]

    def _problem(self, type_name: str, physical_id: str, status: str, expected: dict[str, Any]) -> str:
        if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return f"status {status}"
        if type_name in NO_RESOURCE:
            return ""
        reader = READERS.get(type_name)
        if reader is None:
            return "no reader for this type"
        try:
            observed = reader(self, physical_id, expected)
        except (ClientError, LookupError) as error:
            return f"the service does not have it: {error}"
        if observed is None:
            return "the service does not have it"
        ignored = NOT_SHOWN.get(type_name, ())
        return "; ".join(_differences({key: value for key, value in expected.items() if key not in ignored}, observed))

    def _resolve(self, value: Any, known: Mapping[str, str], exports: Mapping[str, str], stack: str) -> Any:
        """Replace Ref, Fn::ImportValue and Fn::Join where their value can be known without the engine."""
        again = lambda item: self._resolve(item, known, exports, stack)  # noqa: E731
        if isinstance(value, list):
            return [again(item) for item in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"Ref"}:
            pseudo = {
                "AWS::Region": self.emulator.region,
                "AWS::AccountId": ACCOUNT,
                "AWS::Partition": "aws",
                "AWS::URLSuffix": "amazonaws.com",
                "AWS::StackName": stack,
            }
            return known.get(value["Ref"], pseudo.get(value["Ref"], UNKNOWN))
        if set(value) == {"Fn::ImportValue"}:
            return exports.get(again(value["Fn::ImportValue"]), UNKNOWN)
        if set(value) == {"Fn::Join"}:
            separator, parts = again(value["Fn::Join"])
            return UNKNOWN if any(not isinstance(part, str) for part in parts) else separator.join(parts)
        if len(value) == 1 and next(iter(value)).startswith("Fn::"):
            return UNKNOWN
        return {key: again(item) for key, item in value.items()}


def templates(assembly: Path) -> dict[str, dict[str, Any]]:
    """The templates of a cloud assembly by stack name."""
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    return {
        artifact["properties"].get("stackName", name): json.loads((assembly / artifact["properties"]["templateFile"]).read_text())
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }


def _differences(expected: Any, observed: Any, path: str = "") -> Iterator[str]:
    """Where the service's answer lacks what the template asks for; the answer may hold more."""
    if expected is UNKNOWN:
        return
    if path == "/Tags":
        expected, observed = _tag_map(expected), _tag_map(observed)
    if isinstance(expected, dict):
        if not isinstance(observed, dict):
            yield f"{path} is {observed!r}, not {expected!r}"
            return
        lower = {key.lower(): value for key, value in observed.items()}
        for key, value in expected.items():
            if key.lower() not in lower:
                if value is not UNKNOWN and value not in ([], {}, None):
                    yield f"{path}/{key} is missing"
            else:
                yield from _differences(value, lower[key.lower()], f"{path}/{key}")
    elif isinstance(expected, list):
        if not isinstance(observed, list) or len(observed) < len(expected):
            yield f"{path} is {observed!r}, not {expected!r}"
            return
        for item in expected:
            if all(any(_differences(item, candidate)) for candidate in observed):
                yield f"{path} lacks {item!r}"
    elif str(expected).lower() != str(observed).lower():
        yield f"{path} is {observed!r}, not {expected!r}"


def _tag_map(tags: Any) -> dict[str, str]:
    """Tags in any service's spelling, without those that CloudFormation adds."""
    if isinstance(tags, list):
        tags = {tag.get("Key", tag.get("TagKey")): tag.get("Value", tag.get("TagValue")) for tag in tags}
    return {key: value for key, value in (tags or {}).items() if not key.startswith("aws:")}


# --- one reader per type: the API's answer in the template's spelling, None or an error when the resource is not there ----


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
    return next((entry for entry in found if entry["State"] == "available"), None)


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
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}],
    }


def _cluster(account: Account, name: str, _: dict[str, Any]) -> Any:
    found = account.client("eks").describe_cluster(name=name)["cluster"]
    if found["status"] != "ACTIVE":
        return None
    enabled = [kind for entry in found["logging"]["clusterLogging"] if entry["enabled"] for kind in entry["types"]]
    return {**found, "logging": {"clusterLogging": {"enabledTypes": [{"type": kind} for kind in enabled]}}}


def _node_group(account: Account, name: str, expected: dict[str, Any]) -> Any:
    clusters = [expected["ClusterName"]] if expected else account.client("eks").list_clusters()["clusters"]
    for cluster in clusters:
        if name in account.client("eks").list_nodegroups(clusterName=cluster)["nodegroups"]:
            found = account.client("eks").describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
            return found if found["status"] == "ACTIVE" else None
    return None


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


def _policy(account: Account, name: str, expected: dict[str, Any]) -> Any:
    """An inline policy; it must be on every role that the template names."""
    document = None
    for role in (
        expected.get("Roles", []) if expected else [entry["RoleName"] for entry in account.client("iam").list_roles()["Roles"]]
    ):
        try:
            document = account.client("iam").get_role_policy(RoleName=role, PolicyName=expected.get("PolicyName", name))[
                "PolicyDocument"
            ]
        except ClientError:
            if expected:
                raise
    return document and {"PolicyDocument": document, "PolicyName": expected.get("PolicyName", name), "Roles": expected.get("Roles")}


def _key(account: Account, key: str, _: dict[str, Any]) -> Any:
    found = account.client("kms").describe_key(KeyId=key)["KeyMetadata"]
    if found["KeyState"] != "Enabled":
        return None  # a deleted key waits out its window, on AWS as here
    rotation = account.client("kms").get_key_rotation_status(KeyId=key)["KeyRotationEnabled"]
    policy = json.loads(account.client("kms").get_key_policy(KeyId=key, PolicyName="default")["Policy"])
    tags = account.client("kms").list_resource_tags(KeyId=key)["Tags"]
    return {**found, "EnableKeyRotation": rotation, "KeyPolicy": policy, "Tags": tags}


def _function(account: Account, name: str, _: dict[str, Any]) -> Any:
    answer = account.client("lambda").get_function(FunctionName=name)
    found = {**answer["Configuration"], "Tags": answer.get("Tags", {})}
    layers = [layer["Arn"] for layer in found.get("Layers", [])]
    return {**found, "Layers": layers} if found["State"] == "Active" else None


def _layer(account: Account, arn: str, _: dict[str, Any]) -> Any:
    return account.client("lambda").get_layer_version_by_arn(Arn=arn)


def _log_group(account: Account, name: str, _: dict[str, Any]) -> Any:
    found = account.client("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    tags = account.client("logs").list_tags_log_group(logGroupName=name)["tags"]
    return next(({**group, "Tags": tags} for group in found if group["logGroupName"] == name), None)


def _parameter(account: Account, name: str, _: dict[str, Any]) -> Any:
    return account.client("ssm").get_parameter(Name=name)["Parameter"]


def _state_machine(account: Account, arn: str, _: dict[str, Any]) -> Any:
    return account.client("stepfunctions").describe_state_machine(stateMachineArn=arn)


def _helm_release(account: Account, _: str, expected: dict[str, Any]) -> Any:
    where = ("--namespace", expected["Namespace"], "--output", "json")
    wanted = (expected["Release"], f"{expected['Chart']}-{expected['Version']}", "deployed")
    if not any(
        (release["name"], release["chart"], release["status"]) == wanted for release in account.kube("helm", "list", *where) or []
    ):
        return None
    values = account.kube("helm", "get", "values", expected["Release"], *where)
    same = expected["Values"] is UNKNOWN or json.loads(expected["Values"]) == values
    return expected if same else {**expected, "Values": values}


def _manifest(account: Account, _: str, expected: dict[str, Any]) -> Any:
    """Every object of the manifest as the cluster has it, only where the template's text is known."""
    if expected["Manifest"] is UNKNOWN:
        return None
    for item in json.loads(expected["Manifest"]):
        metadata = item["metadata"]
        found = account.kube(
            "kubectl", "get", item["kind"], metadata["name"], "-n", metadata.get("namespace", "default"), "-o", "json"
        )
        problems = ["not in the cluster"] if found is None else list(_differences(item, found))
        if problems:
            raise LookupError(f"{item['kind']} {metadata['name']}: {problems}")
    return expected


def _gpu_zones(account: Account, physical_id: str, expected: dict[str, Any]) -> Any:
    """The choice must be the zones that the VPC's subnets are in."""
    chosen = set(physical_id.partition(":")[2].split(","))
    subnets = account.client("ec2").describe_subnets()["Subnets"]
    used = {subnet["AvailabilityZone"] for subnet in subnets if not subnet["DefaultForAz"]}
    return expected if chosen == used else None


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
}
# Properties that the services' answers do not show, on AWS either.
NOT_SHOWN: Mapping[str, tuple[str, ...]] = {
    "AWS::EC2::FlowLog": ("ResourceType",),
    "AWS::EKS::Addon": ("ResolveConflicts",),
    "AWS::EKS::Cluster": ("BootstrapSelfManagedAddons",),
    "AWS::KMS::Key": ("PendingWindowInDays",),
    "AWS::Lambda::Function": ("Code",),
    "AWS::Lambda::LayerVersion": ("Content",),
    # Tags stand elsewhere on AWS too; the other two ministack does not keep.
    "AWS::StepFunctions::StateMachine": ("Tags", "LoggingConfiguration", "TracingConfiguration"),
}

LISTINGS: Mapping[str, Callable[[Account], list[str]]] = {
    "address": lambda a: [x["AllocationId"] for x in a.client("ec2").describe_addresses()["Addresses"]],
    "cluster": lambda a: a.client("eks").list_clusters()["clusters"],
    "flow log": lambda a: [x["FlowLogId"] for x in a.client("ec2").describe_flow_logs()["FlowLogs"]],
    "function": lambda a: [x["FunctionName"] for x in a.client("lambda").list_functions()["Functions"]],
    "internet gateway": lambda a: [
        x["InternetGatewayId"] for x in a.client("ec2").describe_internet_gateways()["InternetGateways"]
    ],
    "key": lambda a: [
        x["KeyId"]
        for x in a.client("kms").list_keys()["Keys"]
        if a.client("kms").describe_key(KeyId=x["KeyId"])["KeyMetadata"]["KeyState"] != "PendingDeletion"
    ],
    "launch template": lambda a: [x["LaunchTemplateId"] for x in a.client("ec2").describe_launch_templates()["LaunchTemplates"]],
    "layer": lambda a: [x["LayerName"] for x in a.client("lambda").list_layers()["Layers"]],
    "log group": lambda a: [x["logGroupName"] for x in a.client("logs").describe_log_groups()["logGroups"]],
    "NAT gateway": lambda a: [
        x["NatGatewayId"] for x in a.client("ec2").describe_nat_gateways()["NatGateways"] if x["State"] != "deleted"
    ],
    "parameter": lambda a: [x["Name"] for x in a.client("ssm").describe_parameters()["Parameters"]],
    "placement group": lambda a: [x["GroupName"] for x in a.client("ec2").describe_placement_groups()["PlacementGroups"]],
    "role": lambda a: [x["RoleName"] for x in a.client("iam").list_roles()["Roles"]],
    "route table": lambda a: [x["RouteTableId"] for x in a.client("ec2").describe_route_tables()["RouteTables"]],
    "security group": lambda a: [x["GroupId"] for x in a.client("ec2").describe_security_groups()["SecurityGroups"]],
    "stack": lambda a: [x["StackName"] for x in a.client("cloudformation").describe_stacks()["Stacks"]],
    "state machine": lambda a: [x["name"] for x in a.client("stepfunctions").list_state_machines()["stateMachines"]],
    "subnet": lambda a: [x["SubnetId"] for x in a.client("ec2").describe_subnets()["Subnets"]],
    "vpc": lambda a: [x["VpcId"] for x in a.client("ec2").describe_vpcs()["Vpcs"]],
    "vpc endpoint": lambda a: [x["VpcEndpointId"] for x in a.client("ec2").describe_vpc_endpoints()["VpcEndpoints"]],
}
