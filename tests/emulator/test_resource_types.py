"""The added resource types and rules, called the way ministack's engine calls them; no server runs."""

import json
from itertools import count

import pytest
from ministack.core.responses import get_account_id
from ministack.services import ec2, eks, iam
from ministack.services.cloudformation import provisioners

from local.instance_offerings import InstanceOfferings
from local.resource_rules import ResourceRules
from local.resource_schemas import ResourceSchemas
from local.resource_types import ADDED_TYPES

REGION = "us-east-1"  # ministack's region outside a request
ids = count(1)


@pytest.fixture(scope="module", autouse=True)
def offerings_file(tmp_path_factory):
    """Install types and rules once; the handler table is put back afterwards."""
    saved = dict(provisioners._RESOURCE_HANDLERS)
    file = tmp_path_factory.mktemp("offerings") / "offerings.json"
    offerings = InstanceOfferings(file=file)
    ResourceRules(schemas=ResourceSchemas(region=REGION), offerings=offerings).install()
    yield file
    provisioners._RESOURCE_HANDLERS.clear()
    provisioners._RESOURCE_HANDLERS.update(saved)


def create(kind, **properties):
    return provisioners._provision_resource(f"AWS::{kind}", f"Logical{next(ids)}", properties, "stack")


def delete(kind, physical_id, **properties):
    provisioners._delete_resource(f"AWS::{kind}", physical_id, properties)


@pytest.fixture
def vpc():
    return create("EC2::VPC", CidrBlock="10.0.0.0/16")[0]


@pytest.fixture
def subnets(vpc):
    """Two subnets in zones a and b of a VPC with an internet gateway."""
    gateway = create("EC2::InternetGateway")[0]
    create("EC2::VPCGatewayAttachment", VpcId=vpc, InternetGatewayId=gateway)
    return [
        create("EC2::Subnet", VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"{REGION}{zone}")[0]
        for number, zone in enumerate("ab")
    ]


@pytest.fixture
def role():
    document = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "eks.amazonaws.com"}}],
    }
    return create("IAM::Role", AssumeRolePolicyDocument=document)[1]["Arn"]


@pytest.fixture
def cluster(subnets, role):
    return create("EKS::Cluster", Name=f"cluster-{next(ids)}", RoleArn=role, ResourcesVpcConfig={"SubnetIds": subnets})[0]


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("added", ADDED_TYPES, ids=lambda added: added.name)
def test_unknown_property_is_refused(added):
    with pytest.raises(ValueError, match="Properties validation failed"):
        create(added.name.removeprefix("AWS::"), Nonsense="x")


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("EC2::FlowLog", "ResourceId"),
        ("EC2::SecurityGroupIngress", "IpProtocol"),
        ("EC2::SecurityGroupEgress", "GroupId"),
        ("EKS::Addon", "AddonName"),
        ("EKS::AccessEntry", "PrincipalArn"),
        ("EKS::PodIdentityAssociation", "RoleArn"),
        ("EKS::Nodegroup", "Subnets"),
        ("EKS::Cluster", "RoleArn"),
        ("EC2::Subnet", "VpcId"),
    ],
)
def test_missing_property_is_refused(kind, missing):
    with pytest.raises(ValueError, match=f"'{missing}' is a required property"):
        create(kind)


def test_address_in_use_cannot_go(subnets):
    address, attributes = create("EC2::EIP", Domain="vpc")
    nat = create("EC2::NatGateway", SubnetId=subnets[0], AllocationId=attributes["AllocationId"])[0]
    with pytest.raises(ValueError, match="in use"):
        delete("EC2::EIP", address)
    delete("EC2::NatGateway", nat)
    delete("EC2::EIP", address)
    assert attributes["AllocationId"] not in ec2._addresses


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"SubnetId": "subnet-0123456789abcdef0"}, "subnet-0123456789abcdef0' does not exist"),
        ({}, "SubnetId"),
        ({"AllocationId": "eipalloc-0123456789abcdef0"}, "does not exist"),
    ],
)
def test_nat_gateway_refuses_what_does_not_exist(properties, message):
    with pytest.raises(ValueError, match=message):
        create("EC2::NatGateway", **properties)


def test_nat_gateway_needs_an_address_of_its_own_and_an_internet_gateway(subnets):
    with pytest.raises(ValueError, match=r"InvalidAllocationID\.NotFound"):
        create("EC2::NatGateway", SubnetId=subnets[0])
    allocation = create("EC2::EIP")[1]["AllocationId"]
    create("EC2::NatGateway", SubnetId=subnets[0], AllocationId=allocation)
    with pytest.raises(ValueError, match="already associated"):
        create("EC2::NatGateway", SubnetId=subnets[0], AllocationId=allocation)
    lonely = create("EC2::VPC", CidrBlock="10.1.0.0/16")[0]
    subnet = create("EC2::Subnet", VpcId=lonely, CidrBlock="10.1.0.0/24", AvailabilityZone=f"{REGION}a")[0]
    with pytest.raises(ValueError, match="no Internet gateway"):
        create("EC2::NatGateway", SubnetId=subnet, AllocationId=create("EC2::EIP")[1]["AllocationId"])


def test_flow_log_needs_a_role_and_a_place(vpc, role):
    target = {"ResourceId": vpc, "ResourceType": "VPC", "TrafficType": "ALL"}
    with pytest.raises(ValueError, match="DeliverLogsPermissionArn"):
        create("EC2::FlowLog", LogGroupName="logs", **target)
    with pytest.raises(ValueError, match="LogGroupName"):
        create("EC2::FlowLog", DeliverLogsPermissionArn=role, **target)
    flow_log = create("EC2::FlowLog", DeliverLogsPermissionArn=role, LogGroupName="logs", **target)[0]
    delete("EC2::FlowLog", flow_log)
    with pytest.raises(ValueError, match="does not exist"):
        delete("EC2::FlowLog", flow_log)


@pytest.mark.parametrize(
    ("kind", "other"),
    [("EC2::SecurityGroupIngress", "SourceSecurityGroupId"), ("EC2::SecurityGroupEgress", "DestinationSecurityGroupId")],
)
def test_group_rule(vpc, kind, other):
    group = create("EC2::SecurityGroup", GroupDescription="nodes", VpcId=vpc)[0]
    rule = {"GroupId": group, "IpProtocol": "-1", other: group}
    rule_id, attributes = create(kind, **rule)
    assert attributes == {"Id": rule_id}
    with pytest.raises(ValueError, match="Duplicate"):
        create(kind, **rule)
    with pytest.raises(ValueError, match="does not exist"):
        create(kind, **{**rule, other: "sg-0123456789abcdef0"})
    delete(kind, rule_id, **rule)
    with pytest.raises(ValueError, match="does not exist"):
        delete(kind, rule_id, **rule)


def test_group_named_by_another_groups_rule_cannot_go(vpc):
    first, second = (create("EC2::SecurityGroup", GroupDescription=name, VpcId=vpc)[0] for name in ("a", "b"))
    rule = {"GroupId": first, "IpProtocol": "-1", "SourceSecurityGroupId": second}
    rule_id = create("EC2::SecurityGroupIngress", **rule)[0]
    with pytest.raises(ValueError, match="DependencyViolation"):
        delete("EC2::SecurityGroup", second)
    delete("EC2::SecurityGroupIngress", rule_id, **rule)
    delete("EC2::SecurityGroup", second)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"AddonName": "vpc-cni-typo"}, "not supported"),
        ({"AddonName": "vpc-cni", "AddonVersion": "1.2"}, "not supported"),
        ({"AddonName": "vpc-cni", "ConfigurationValues": "{oops"}, "not valid JSON"),
        ({"AddonName": "vpc-cni", "ClusterName": "no-such-cluster"}, "No cluster found"),
        (
            {
                "AddonName": "vpc-cni",
                "PodIdentityAssociations": [{"ServiceAccount": "aws-node", "RoleArn": "arn:aws:iam::{account}:role/nobody"}],
            },
            "cannot be found",
        ),
    ],
)
def test_addon_refuses(cluster, properties, message):
    text = json.dumps({"ClusterName": cluster, **properties}).replace("{account}", get_account_id())
    with pytest.raises(ValueError, match=message):
        create("EKS::Addon", **json.loads(text))


def test_addon_owns_its_pod_identities(cluster, role):
    properties = {
        "ClusterName": cluster,
        "AddonName": "vpc-cni",
        "PodIdentityAssociations": [{"ServiceAccount": "aws-node", "RoleArn": role}],
    }
    key, attributes = create("EKS::Addon", **properties)
    assert key == f"{cluster}|vpc-cni"
    owned = [entry for entry in eks._pod_identity_associations.values() if entry["ownerArn"] == attributes["Arn"]]
    assert [entry["serviceAccount"] for entry in owned] == ["aws-node"]
    delete("EKS::Addon", key, **properties)
    assert not [entry for entry in eks._pod_identity_associations.values() if entry["ownerArn"] == attributes["Arn"]]


def test_access_entry(cluster, role):
    policy = {"PolicyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy", "AccessScope": {"Type": "cluster"}}
    properties = {"ClusterName": cluster, "PrincipalArn": role, "AccessPolicies": [policy]}
    with pytest.raises(ValueError, match="not valid"):
        create("EKS::AccessEntry", **{**properties, "AccessPolicies": [{**policy, "PolicyArn": "arn:aws:iam::aws:policy/Admin"}]})
    with pytest.raises(ValueError, match="cannot be found"):
        create("EKS::AccessEntry", **{**properties, "PrincipalArn": f"{role}x"})
    key = create("EKS::AccessEntry", **properties)[0]
    with pytest.raises(ValueError, match="already exists"):
        create("EKS::AccessEntry", **properties)
    delete("EKS::AccessEntry", key, **properties)


def test_pod_identity_association(cluster, role):
    properties = {"ClusterName": cluster, "RoleArn": role, "Namespace": "inference", "ServiceAccount": "ray"}
    arn, attributes = create("EKS::PodIdentityAssociation", **properties)
    assert arn.endswith(attributes["AssociationId"])
    with pytest.raises(ValueError, match="already exists"):
        create("EKS::PodIdentityAssociation", **properties)
    delete("EKS::PodIdentityAssociation", arn, **properties)
    with pytest.raises(ValueError, match="No pod identity association"):
        delete("EKS::PodIdentityAssociation", arn, **properties)


def template(**data):
    return {"Id": create("EC2::LaunchTemplate", LaunchTemplateData=data)[0], "Version": "1"}


@pytest.mark.parametrize(
    ("data", "extra", "message"),
    [
        ({"InstanceType": "g6.8xlarge", "IamInstanceProfile": {"Name": "x"}}, {}, "instance profile"),
        ({"InstanceType": "g6.8xlarge"}, {"InstanceTypes": ["g6.8xlarge"]}, "both"),
        ({"InstanceType": "g6.8xlarge"}, {"DiskSize": 100}, "disk size"),
        ({"InstanceType": "g6.8xlarge", "InstanceMarketOptions": {"MarketType": "spot"}}, {}, "market"),
        ({"NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": "{subnet}"}]}, {}, "subnet"),
        ({"NetworkInterfaces": [{"DeviceIndex": 0}], "SecurityGroupIds": ["{group}"]}, {}, "security groups"),
        ({"NetworkInterfaces": [{"DeviceIndex": 0, "AssociatePublicIpAddress": True}, {"DeviceIndex": 1}]}, {}, "several"),
        ({"InstanceType": "g6.8xlarge", "Placement": {"GroupName": "nowhere"}}, {}, "placement group"),
        ({"InstanceType": "p5.48xlarge"}, {}, "not supported in your requested Availability Zone"),
    ],
)
def test_node_group_refuses(cluster, subnets, role, offerings_file, data, extra, message):
    offerings_file.write_text(json.dumps({"p5*": "b"}))
    group = create("EC2::SecurityGroup", GroupDescription="g", VpcId=ec2._subnets[subnets[0]]["VpcId"])[0]
    data = json.loads(json.dumps(data).replace("{subnet}", subnets[0]).replace("{group}", group))
    with pytest.raises(ValueError, match=message):
        create("EKS::Nodegroup", ClusterName=cluster, NodeRole=role, Subnets=subnets[:1], LaunchTemplate=template(**data), **extra)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Subnets": ["subnet-0123456789abcdef0"]}, "does not exist"),
        ({"NodeRole": "arn:aws:iam::{account}:role/x"}, "cannot be found"),
        ({"LaunchTemplate": {"Id": "lt-0123456789abcdef0", "Version": "1"}}, "does not exist"),
        ({"LaunchTemplate": {"Name": "nope", "Version": "1"}}, "does not exist"),
        ({"ClusterName": "nope"}, "No cluster found"),
    ],
)
def test_node_group_refuses_what_does_not_exist(cluster, subnets, role, change, message):
    change = json.loads(json.dumps(change).replace("{account}", get_account_id()))
    with pytest.raises(ValueError, match=message):
        create("EKS::Nodegroup", **{"ClusterName": cluster, "NodeRole": role, "Subnets": subnets, **change})


def test_node_group_refuses_a_version_that_does_not_exist(cluster, subnets, role):
    with pytest.raises(ValueError, match="version 7 does not exist"):
        create(
            "EKS::Nodegroup",
            ClusterName=cluster,
            NodeRole=role,
            Subnets=subnets,
            LaunchTemplate={**template(InstanceType="g6.8xlarge"), "Version": "7"},
        )


# --- what the emulator keeps, and the order of deletion -------------------------------------------------------------


def test_cluster_has_a_real_security_group_that_goes_with_it(cluster):
    group = eks._clusters[cluster]["resourcesVpcConfig"]["clusterSecurityGroupId"]
    assert ec2._security_groups[group]["IpPermissions"][0]["UserIdGroupPairs"][0]["GroupId"] == group
    delete("EKS::Cluster", cluster)
    assert group not in ec2._security_groups


def test_cluster_with_node_groups_cannot_go(cluster, subnets, role):
    create("EKS::Nodegroup", NodegroupName="n", ClusterName=cluster, NodeRole=role, Subnets=subnets)
    with pytest.raises(ValueError, match="nodegroups attached"):
        delete("EKS::Cluster", cluster)
    with pytest.raises(ValueError, match="DependencyViolation"):
        delete("EC2::Subnet", subnets[0])
    delete("EKS::Nodegroup", "n", ClusterName=cluster)
    delete("EKS::Cluster", cluster)
    delete("EC2::Subnet", subnets[0])


def test_cluster_needs_two_zones(subnets, role):
    with pytest.raises(ValueError, match="two different AZs"):
        create("EKS::Cluster", Name="flat", RoleArn=role, ResourcesVpcConfig={"SubnetIds": subnets[:1]})
    assert "flat" not in eks._clusters


def test_placement_group_in_use_cannot_go(cluster, subnets, role):
    name, attributes = create("EC2::PlacementGroup", Strategy="cluster")
    assert attributes["GroupName"] == name
    create(
        "EKS::Nodegroup",
        NodegroupName="g",
        ClusterName=cluster,
        NodeRole=role,
        Subnets=subnets[:1],
        LaunchTemplate=template(InstanceType="g6.8xlarge", Placement={"GroupName": name}),
    )
    with pytest.raises(ValueError, match="in use"):
        delete("EC2::PlacementGroup", name)
    delete("EKS::Nodegroup", "g", ClusterName=cluster)
    delete("EC2::PlacementGroup", name)


def test_update_changes_tags(cluster, role):
    cases = (
        ("AccessEntry", {"ClusterName": cluster, "PrincipalArn": role}, eks._access_entries),
        (
            "PodIdentityAssociation",
            {"ClusterName": cluster, "RoleArn": role, "Namespace": "n", "ServiceAccount": "s"},
            eks._pod_identity_associations,
        ),
        ("Addon", {"ClusterName": cluster, "AddonName": "coredns"}, eks._addons),
    )
    for kind, properties, store in cases:
        old, new = ({**properties, "Tags": [{"Key": "stage", "Value": value}]} for value in ("dev", "prod"))
        key = create(f"EKS::{kind}", **old)[0]
        assert provisioners._update_resource(f"AWS::EKS::{kind}", key, old, new, "stack", "It")[0] == key
        held = [item["tags"] for item in store.values() if item["clusterName"] == cluster and item["tags"]]
        assert held == [{"stage": "prod"}]


def test_replacement_of_a_placement_group_stands_beside_the_first():
    old, new = {"Strategy": "cluster"}, {"Strategy": "spread"}
    name = provisioners._provision_resource("AWS::EC2::PlacementGroup", "Group", old, "stack")[0]
    other = provisioners._update_resource("AWS::EC2::PlacementGroup", name, old, new, "stack", "Group")[0]
    assert {name: "cluster", other: "spread"}.items() <= {
        key: group["Strategy"] for key, group in ec2._placement_groups.items()
    }.items()


def test_update_replaces_only_for_create_only_properties(vpc):
    group = create("EC2::SecurityGroup", GroupDescription="nodes", VpcId=vpc)[0]
    old = {"GroupId": group, "IpProtocol": "tcp", "FromPort": 1, "ToPort": 2, "CidrIp": "10.0.0.0/8"}
    rule_id = create("EC2::SecurityGroupIngress", **old)[0]

    def update(**change):
        return provisioners._update_resource("AWS::EC2::SecurityGroupIngress", rule_id, old, {**old, **change}, "stack", "Rule")[0]

    assert update(Description="why") == rule_id
    rules = ec2._security_groups[group]["IpPermissions"]
    assert [rule["IpRanges"][0]["Description"] for rule in rules] == ["why"]
    assert update(ToPort=3) != rule_id


def test_iam_role_is_gone_from_the_checks_once_deleted(role):
    name = role.rsplit("/", 1)[-1]
    assert name in iam._roles
    delete("IAM::Role", name)
    with pytest.raises(ValueError, match="cannot be found"):
        create("EKS::Cluster", Name="c", RoleArn=role, ResourcesVpcConfig={"SubnetIds": []})


def test_network_goes_in_the_order_that_ec2_asks_for(vpc, subnets):
    nat = create("EC2::NatGateway", SubnetId=subnets[0], AllocationId=create("EC2::EIP")[1]["AllocationId"])[0]
    gateway = next(
        name for name, item in ec2._internet_gateways.items() if item["Attachments"][:1] and item["Attachments"][0]["VpcId"] == vpc
    )
    table = create("EC2::RouteTable", VpcId=vpc)[0]
    association = create("EC2::SubnetRouteTableAssociation", RouteTableId=table, SubnetId=subnets[0])[0]
    for kind, physical_id, message in (
        ("EC2::RouteTable", table, "has dependencies"),
        ("EC2::InternetGateway", gateway, "has dependencies"),
        ("EC2::VPCGatewayAttachment", f"IGW|{vpc}", "mapped public address"),
        ("EC2::Subnet", subnets[0], "dependent object: NAT gateway"),
    ):
        with pytest.raises(ValueError, match=message):
            delete(kind, physical_id, VpcId=vpc, InternetGatewayId=gateway)
    delete("EC2::NatGateway", nat)
    delete("EC2::SubnetRouteTableAssociation", association)
    delete("EC2::RouteTable", table)
    delete("EC2::VPCGatewayAttachment", f"IGW|{vpc}", VpcId=vpc, InternetGatewayId=gateway)
    delete("EC2::InternetGateway", gateway)
    delete("EC2::Subnet", subnets[0])


def test_cluster_whose_group_is_named_elsewhere_cannot_go(cluster, vpc):
    group = eks._clusters[cluster]["resourcesVpcConfig"]["clusterSecurityGroupId"]
    other = create("EC2::SecurityGroup", GroupDescription="other", VpcId=vpc)[0]
    create("EC2::SecurityGroupIngress", GroupId=other, IpProtocol="-1", SourceSecurityGroupId=group)
    with pytest.raises(ValueError, match="DependencyViolation"):
        delete("EKS::Cluster", cluster)
