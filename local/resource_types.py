"""The CloudFormation resource types that ministack lacks, over its own EC2 and EKS services.

This is the only module that writes to ministack's private handler table, together with resource_rules.py, which
wraps what the table holds. Return values are CloudFormation's documented ones (`Ref` is the physical id). Updates
follow the resource schema: a change of a create-only property replaces the resource. Errors are ValueError with the
service's own code and text: the engine puts them into the stack event and rolls back.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from ministack.services import ec2, eks
from ministack.services.cloudformation import provisioners

Properties = dict[str, Any]
Created = tuple[str, dict[str, str]]

# The add-ons that EKS lists (DescribeAddonVersions), as far as an application like this one may use them.
KNOWN_ADDONS = frozenset(
    {
        "adot",
        "amazon-cloudwatch-observability",
        "aws-ebs-csi-driver",
        "aws-efs-csi-driver",
        "aws-fsx-csi-driver",
        "aws-guardduty-agent",
        "aws-mountpoint-s3-csi-driver",
        "aws-network-flow-monitoring-agent",
        "cert-manager",
        "coredns",
        "eks-node-monitoring-agent",
        "eks-pod-identity-agent",
        "external-dns",
        "kube-proxy",
        "kube-state-metrics",
        "metrics-server",
        "prometheus-node-exporter",
        "snapshot-controller",
        "vpc-cni",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """One added type. `create` returns (Ref, attributes); `update` changes in place what is not create-only."""

    name: str
    create: Callable[[str, Properties, str], Created]
    delete: Callable[[str, Properties], None]
    update: Callable[[str, Properties, Properties], None] = lambda physical_id, old, new: None
    attributes: Callable[[str, Properties], dict[str, str]] = lambda physical_id, properties: {}
    tags: str | None = "list"

    def install(self, *, create_only: frozenset[str]) -> None:
        """Put the type into the engine's table; `create_only` comes from its resource schema."""

        def update(physical_id: str, old: Properties, new: Properties, stack: str, logical_id: str) -> Created:
            if any(old.get(name) != new.get(name) for name in create_only):
                return self.create(logical_id, new, stack)
            self.update(physical_id, old, new)
            return physical_id, self.attributes(physical_id, new)

        provisioners._RESOURCE_HANDLERS[self.name] = {
            "create": self.create,
            "update": update,
            "update_with_logical_id": True,
            "delete": self.delete,
        }
        if self.tags:
            provisioners._STACK_TAG_PROPERTY[self.name] = ("Tags", self.tags)


def call_ec2(action: str, **parameters: Any) -> ElementTree.Element:
    """One EC2 API call inside the emulator; raises ValueError with the API's code and message."""
    wire = {key.replace("__", "."): [str(value)] for key, value in parameters.items() if value is not None}
    status, _, body = ec2._ACTION_MAP[action](wire)
    root = ElementTree.fromstring(re.sub(rb' xmlns="[^"]+"', b"", body, count=1))
    if status >= 400:
        raise ValueError(
            f"{root.findtext('.//Message')} (Service: Ec2, Status Code: {status}, Error Code: {root.findtext('.//Code')})"
        )
    return root


def checked(response: tuple[int, Any, Any]) -> dict[str, Any]:
    """The JSON body of an EKS API response inside the emulator; raises ValueError with its message."""
    body = json.loads(response[2])
    if response[0] >= 400:
        raise ValueError(f"{body.get('message')} (Service: Eks, Status Code: {response[0]})")
    return body


def camel(value: Any) -> Any:
    """CloudFormation's property names to those of the EKS API."""
    return provisioners._pascal_to_camel(value)


def _retag(key: str, old: Properties, new: Properties) -> None:
    provisioners._ec2_apply_tags(key, new, old)


# --- EC2 -----------------------------------------------------------------------------------------------------------


def _address(public_ip: str) -> dict[str, Any]:
    for address in ec2._addresses.values():
        if address["PublicIp"] == public_ip:
            return address
    raise ValueError(f"Address {public_ip} does not exist (Service: Ec2, Error Code: InvalidAddress.NotFound)")


def _eip_create(logical_id: str, properties: Properties, stack: str) -> Created:
    root = call_ec2("AllocateAddress", Domain=properties.get("Domain", "vpc"))
    public_ip, allocation = root.findtext("publicIp", ""), root.findtext("allocationId", "")
    _retag(allocation, {}, properties)
    return public_ip, {"PublicIp": public_ip, "AllocationId": allocation}


def _eip_delete(public_ip: str, properties: Properties) -> None:
    address = _address(public_ip)
    if address["AssociationId"]:
        raise ValueError(f"Address {public_ip} is in use (Service: Ec2, Error Code: InvalidIPAddress.InUse)")
    call_ec2("ReleaseAddress", AllocationId=address["AllocationId"])


def _nat_create(logical_id: str, properties: Properties, stack: str) -> Created:
    subnet = ec2._subnets.get(properties.get("SubnetId", ""))
    if subnet is None:
        raise ValueError(
            "The request must contain the parameter SubnetId of an existing subnet "
            "(Service: Ec2, Error Code: InvalidSubnetID.NotFound)"
        )
    public = properties.get("ConnectivityType", "public") == "public"
    allocation = properties.get("AllocationId")
    if public:
        if allocation not in ec2._addresses:
            raise ValueError(
                f"Elastic IP address {allocation} could not be associated with this NAT gateway "
                "(Service: Ec2, Error Code: InvalidAllocationID.NotFound)"
            )
        if ec2._addresses[allocation]["AssociationId"]:
            raise ValueError(
                f"Elastic IP address {allocation} is already associated (Service: Ec2, Error Code: Resource.AlreadyAssociated)"
            )
        if not any(
            attachment["VpcId"] == subnet["VpcId"]
            for gateway in ec2._internet_gateways.values()
            for attachment in gateway["Attachments"]
        ):
            raise ValueError(
                f"Network {subnet['VpcId']} has no Internet gateway attached (Service: Ec2, Error Code: Gateway.NotAttached)"
            )
    root = call_ec2(
        "CreateNatGateway",
        SubnetId=properties["SubnetId"],
        AllocationId=allocation,
        ConnectivityType=properties.get("ConnectivityType"),
    )
    nat = root.findtext(".//natGatewayId", "")
    if public:
        ec2._addresses[allocation]["AssociationId"] = f"eipassoc-{nat.removeprefix('nat-')}"
    _retag(nat, {}, properties)
    return nat, {"NatGatewayId": nat}


def _nat_delete(nat: str, properties: Properties) -> None:
    call_ec2("DeleteNatGateway", NatGatewayId=nat)
    address = ec2._addresses.get(ec2._nat_gateways[nat]["AllocationId"])
    if address:
        address["AssociationId"] = None


def _flow_log_create(logical_id: str, properties: Properties, stack: str) -> Created:
    if properties.get("LogDestinationType", "cloud-watch-logs") == "cloud-watch-logs":
        missing = [name for name in ("DeliverLogsPermissionArn",) if not properties.get(name)]
        if not (properties.get("LogGroupName") or properties.get("LogDestination")):
            missing.append("LogGroupName or LogDestination")
        if missing:
            raise ValueError(
                f"{' and '.join(missing)} is required for cloud-watch-logs (Service: Ec2, Error Code: InvalidParameter)"
            )
    root = call_ec2(
        "CreateFlowLogs",
        ResourceId__1=properties["ResourceId"],
        ResourceType=properties["ResourceType"],
        TrafficType=properties.get("TrafficType"),
        LogGroupName=properties.get("LogGroupName"),
        LogDestination=properties.get("LogDestination"),
        LogDestinationType=properties.get("LogDestinationType"),
    )
    flow_log = root.findtext(".//item", "")
    ec2._flow_logs[flow_log]["DeliverLogsPermissionArn"] = properties.get("DeliverLogsPermissionArn")
    _retag(flow_log, {}, properties)
    return flow_log, {"Id": flow_log}


def _flow_log_delete(flow_log: str, properties: Properties) -> None:
    if flow_log not in ec2._flow_logs:
        raise ValueError(f"{flow_log} does not exist (Service: Ec2, Error Code: InvalidFlowLogId.NotFound)")
    call_ec2("DeleteFlowLogs", FlowLogId__1=flow_log)


def _placement_group_create(logical_id: str, properties: Properties, stack: str) -> Created:
    name = provisioners._physical_name(stack, logical_id, max_len=246)
    if name in ec2._placement_groups:  # a replacement stands beside what it replaces
        name += f"-{secrets.token_hex(4)}"
    root = call_ec2(
        "CreatePlacementGroup",
        GroupName=name,
        Strategy=properties.get("Strategy", "cluster"),
        PartitionCount=properties.get("PartitionCount"),
    )
    group = root.findtext(".//groupId", "")
    _retag(group, {}, properties)
    return name, {"GroupName": name, "GroupId": group}


def _rule_type(name: str, *, egress: bool) -> ResourceType:
    """AWS::EC2::SecurityGroupIngress or -Egress: one rule of a group, added and removed on its own."""
    store = "IpPermissionsEgress" if egress else "IpPermissions"

    def group_of(properties: Properties) -> dict[str, Any]:
        group = ec2._security_groups.get(properties.get("GroupId", ""))
        if group is None:
            raise ValueError(
                f"The security group '{properties.get('GroupId')}' does not exist (Service: Ec2, Error Code: InvalidGroup.NotFound)"
            )
        return group

    def create(logical_id: str, properties: Properties, stack: str) -> Created:
        group = group_of(properties)
        rule = provisioners._ec2_sg_permissions([properties])[0]
        if any(ec2._rules_match(rule, existing) for existing in group[store]):
            raise ValueError("the specified rule already exists (Service: Ec2, Error Code: InvalidPermission.Duplicate)")
        rule_id = ec2._sg_rule_id(group["GroupId"], egress, rule)
        group[store].append({**rule, "SecurityGroupRuleId": rule_id})
        return rule_id, {"Id": rule_id}

    def delete(rule_id: str, properties: Properties) -> None:
        call_ec2(
            "RevokeSecurityGroupEgress" if egress else "RevokeSecurityGroupIngress",
            GroupId=group_of(properties)["GroupId"],
            SecurityGroupRuleId__1=rule_id,
        )

    def update(rule_id: str, old: Properties, new: Properties) -> None:
        rules = group_of(new)[store]
        position = next(number for number, rule in enumerate(rules) if rule.get("SecurityGroupRuleId") == rule_id)
        rules[position] = {**provisioners._ec2_sg_permissions([new])[0], "SecurityGroupRuleId": rule_id}

    return ResourceType(
        name=name, create=create, update=update, delete=delete, tags=None, attributes=lambda rule_id, _: {"Id": rule_id}
    )


# --- EKS -----------------------------------------------------------------------------------------------------------


def _tag_map(properties: Properties) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in properties.get("Tags") or []}


def _addon_pod_identities(addon: dict[str, Any], properties: Properties) -> None:
    """EKS owns one pod identity association per entry of the add-on; the add-on reports their ARNs."""
    cluster = addon["clusterName"]
    for key, association in list(eks._pod_identity_associations.items()):
        if association.get("ownerArn") == addon["addonArn"]:
            del eks._pod_identity_associations[key]
    arns = []
    for entry in properties.get("PodIdentityAssociations") or []:
        association = checked(eks._create_pod_identity_association(cluster, {**camel(entry), "namespace": "kube-system"}))[
            "association"
        ]
        eks._pod_identity_associations[eks._pia_key(cluster, association["associationId"])]["ownerArn"] = addon["addonArn"]
        arns.append(association["associationArn"])
    addon["podIdentityAssociations"] = arns


def _addon_key(physical_id: str) -> dict[str, Any]:
    return eks._addons["/".join(physical_id.split("|"))]


def _addon_create(logical_id: str, properties: Properties, stack: str) -> Created:
    cluster, name = properties["ClusterName"], properties["AddonName"]
    _addon_check(properties)
    body = camel(
        {
            key: value
            for key, value in properties.items()
            if key in ("AddonName", "AddonVersion", "ConfigurationValues", "ServiceAccountRoleArn")
        }
    )
    arn = checked(eks._create_addon(cluster, {**body, "tags": _tag_map(properties)}))["addon"]["addonArn"]
    _addon_pod_identities(eks._addons[f"{cluster}/{name}"], properties)
    return f"{cluster}|{name}", {"Arn": arn}


def _addon_check(properties: Properties) -> None:
    if properties["AddonName"] not in KNOWN_ADDONS:
        raise ValueError(f"Addon {properties['AddonName']} specified is not supported (Service: Eks, Status Code: 400)")
    version = properties.get("AddonVersion")
    if version and not re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", version):
        raise ValueError(f"Addon version {version} specified is not supported (Service: Eks, Status Code: 400)")
    if properties.get("ConfigurationValues"):
        try:
            json.loads(properties["ConfigurationValues"])
        except ValueError as error:
            raise ValueError(f"ConfigurationValue provided is not valid JSON: {error} (Service: Eks)") from error


def _addon_update(physical_id: str, old: Properties, new: Properties) -> None:
    _addon_check(new)
    addon = _addon_key(physical_id)
    checked(
        eks._update_addon(
            *physical_id.split("|"),
            {
                key[0].lower() + key[1:]: new.get(key, "")
                for key in ("AddonVersion", "ConfigurationValues", "ServiceAccountRoleArn")
            },
        )
    )
    if old.get("PodIdentityAssociations") != new.get("PodIdentityAssociations"):
        _addon_pod_identities(addon, new)
    addon["tags"] = _tag_map(new)


def _addon_delete(physical_id: str, properties: Properties) -> None:
    _addon_pod_identities(_addon_key(physical_id), {})
    checked(eks._delete_addon(*physical_id.split("|")))


def _access_entry_policies(cluster: str, principal: str, old: Properties, new: Properties) -> None:
    for policy in old.get("AccessPolicies") or []:
        checked(eks._disassociate_access_policy(cluster, principal, policy["PolicyArn"]))
    for policy in new.get("AccessPolicies") or []:
        checked(eks._associate_access_policy(cluster, principal, camel(policy)))


def _access_entry_create(logical_id: str, properties: Properties, stack: str) -> Created:
    cluster, principal = properties["ClusterName"], properties["PrincipalArn"]
    known = {policy["PolicyArn"].rsplit("/", 1)[-1] for policy in properties.get("AccessPolicies") or []}
    unknown = {name for name in known if not re.fullmatch(r"Amazon(EKS|AIOps|Arc)\w*Policy", name)}
    if unknown:
        raise ValueError(f"The policyArn parameter format is not valid: {', '.join(unknown)} (Service: Eks)")
    body = camel(
        {key: value for key, value in properties.items() if key in ("PrincipalArn", "KubernetesGroups", "Username", "Type")}
    )
    entry = checked(eks._create_access_entry(cluster, {**body, "tags": _tag_map(properties)}))["accessEntry"]
    _access_entry_policies(cluster, principal, {}, properties)
    return f"{principal}|{cluster}", {"AccessEntryArn": entry["accessEntryArn"]}


def _access_entry_update(physical_id: str, old: Properties, new: Properties) -> None:
    principal, cluster = physical_id.rsplit("|", 1)
    checked(
        eks._update_access_entry(
            cluster, principal, {"kubernetesGroups": new.get("KubernetesGroups") or [], "username": new.get("Username", "")}
        )
    )
    _access_entry_policies(cluster, principal, old, new)
    eks._access_entries[eks._ae_key(cluster, principal)]["tags"] = _tag_map(new)


def _access_entry_delete(physical_id: str, properties: Properties) -> None:
    principal, cluster = physical_id.rsplit("|", 1)
    checked(eks._delete_access_entry(cluster, principal))


def _pod_identity_attributes(arn: str, properties: Properties) -> dict[str, str]:
    return {"AssociationArn": arn, "AssociationId": arn.rsplit("/", 1)[-1]}


def _pod_identity_create(logical_id: str, properties: Properties, stack: str) -> Created:
    body = camel({key: value for key, value in properties.items() if key not in ("ClusterName", "Tags")})
    association = checked(eks._create_pod_identity_association(properties["ClusterName"], {**body, "tags": _tag_map(properties)}))[
        "association"
    ]
    return association["associationArn"], _pod_identity_attributes(association["associationArn"], properties)


def _pod_identity_update(arn: str, old: Properties, new: Properties) -> None:
    association = arn.rsplit("/", 1)[-1]
    checked(eks._update_pod_identity_association(new["ClusterName"], association, camel(new)))
    eks._pod_identity_associations[eks._pia_key(new["ClusterName"], association)]["tags"] = _tag_map(new)


def _pod_identity_delete(arn: str, properties: Properties) -> None:
    checked(eks._delete_pod_identity_association(properties["ClusterName"], arn.rsplit("/", 1)[-1]))


ADDED_TYPES = (
    ResourceType(
        name="AWS::EC2::EIP",
        create=_eip_create,
        delete=_eip_delete,
        update=lambda ip, old, new: _retag(_address(ip)["AllocationId"], old, new),
        attributes=lambda ip, _: {"PublicIp": ip, "AllocationId": _address(ip)["AllocationId"]},
    ),
    ResourceType(
        name="AWS::EC2::NatGateway",
        create=_nat_create,
        delete=_nat_delete,
        update=_retag,
        attributes=lambda nat, _: {"NatGatewayId": nat},
    ),
    ResourceType(
        name="AWS::EC2::FlowLog",
        create=_flow_log_create,
        delete=_flow_log_delete,
        update=_retag,
        attributes=lambda flow_log, _: {"Id": flow_log},
    ),
    ResourceType(
        name="AWS::EC2::PlacementGroup",
        create=_placement_group_create,
        tags=None,
        delete=lambda name, _: call_ec2("DeletePlacementGroup", GroupName=name) and None,
        attributes=lambda name, _: {"GroupName": name, "GroupId": ec2._placement_groups[name]["GroupId"]},
    ),
    _rule_type("AWS::EC2::SecurityGroupIngress", egress=False),
    _rule_type("AWS::EC2::SecurityGroupEgress", egress=True),
    ResourceType(
        name="AWS::EKS::Addon",
        create=_addon_create,
        delete=_addon_delete,
        update=_addon_update,
        attributes=lambda key, _: {"Arn": _addon_key(key)["addonArn"]},
    ),
    ResourceType(
        name="AWS::EKS::AccessEntry",
        create=_access_entry_create,
        delete=_access_entry_delete,
        update=_access_entry_update,
        attributes=lambda key, _: {"AccessEntryArn": eks._access_entry_arn(*reversed(key.rsplit("|", 1)))},
    ),
    ResourceType(
        name="AWS::EKS::PodIdentityAssociation",
        create=_pod_identity_create,
        delete=_pod_identity_delete,
        update=_pod_identity_update,
        attributes=_pod_identity_attributes,
    ),
    # Real CloudFormation creates nothing for it either.
    ResourceType(
        name="AWS::CDK::Metadata",
        create=lambda logical_id, properties, stack: (logical_id, {}),
        delete=lambda physical_id, properties: None,
        tags=None,
    ),
)
