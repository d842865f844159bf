"""The construct alone, in someone else's application."""

import doctest

import pytest
from aws_cdk import App, Stack, assertions, aws_ec2 as ec2, aws_eks_v2 as eks
from constructs import efa_node_group
from constructs.efa_node_group import EfaNodeGroup
from constructs.node_role import NodeRole

from catalog.efa_instance_type import efa_instance_types


def test_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(efa_node_group)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.fixture(scope="module")
def template() -> dict:
    """One group of every type, in one stack."""
    stack = Stack(App(), "Mine")
    vpc = ec2.Vpc(stack, "Vpc", max_azs=2)
    cluster = eks.Cluster.from_cluster_attributes(
        stack, "Cluster", cluster_name="mine", vpc=vpc, cluster_security_group_id="sg-cluster"
    )
    role = NodeRole(stack, "NodeRole")
    for name, instance in efa_instance_types().items():
        EfaNodeGroup(
            stack,
            name,
            cluster=cluster,
            kubernetes_version="1.35",
            node_role=role,
            name=name.replace(".", "-"),
            instance=instance,
            count=2,
            subnet_id="subnet-1",
        )
    return assertions.Template.from_stack(stack).to_json()["Resources"]


def resources(template: dict, type_name: str) -> list[dict]:
    return [resource["Properties"] for resource in template.values() if resource["Type"] == type_name]


@pytest.mark.parametrize("name", efa_instance_types())
def test_one_efa_interface_on_every_card_that_takes_one(template: dict, name: str) -> None:
    (data,) = [
        item["LaunchTemplateData"]
        for item in resources(template, "AWS::EC2::LaunchTemplate")
        if item["LaunchTemplateData"]["InstanceType"] == name
    ]
    instance = efa_instance_types()[name]
    interfaces = data["NetworkInterfaces"]
    assert sum(item["InterfaceType"] in ("efa", "efa-only") for item in interfaces) == instance.efa_interfaces
    first, *further = interfaces
    assert (first["NetworkCardIndex"], first["DeviceIndex"]) == (0, 0)
    assert first["InterfaceType"] == ("efa" if instance.network_cards[0] else "interface")
    assert all(item["InterfaceType"] == "efa-only" for item in further)
    assert len({item["NetworkCardIndex"] for item in interfaces}) == len(interfaces)
    assert "SecurityGroupIds" not in data
    assert not {"SubnetId", "AssociatePublicIpAddress"} & {key for item in interfaces for key in item}
    for item in interfaces:
        assert item["Groups"][0] == "sg-cluster"
        assert len(item["Groups"]) == 2
    assert ("RAID0" in str(data["UserData"])) == (instance.nvme_gb > 0)


def test_groups_allow_all_traffic_from_and_to_themselves(template: dict) -> None:
    groups = {key for key, resource in template.items() if resource["Type"] == "AWS::EC2::SecurityGroup"}
    for kind, peer in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        rules = resources(template, f"AWS::EC2::SecurityGroup{kind}")
        assert all(rule["IpProtocol"] == "-1" and rule["GroupId"] == rule[peer] for rule in rules)
        assert {rule["GroupId"]["Fn::GetAtt"][0] for rule in rules} >= groups


def test_group_properties(template: dict) -> None:
    for group in resources(template, "AWS::EKS::Nodegroup"):
        assert group["AmiType"] == "AL2023_x86_64_NVIDIA"
        assert group["Version"] == "1.35"
        assert group["Subnets"] == ["subnet-1"]
        assert group["ScalingConfig"] == {"MinSize": 0, "DesiredSize": 2, "MaxSize": 2}
        assert group["Taints"] == [{"Key": "nvidia.com/gpu", "Value": "true", "Effect": "NO_SCHEDULE"}]
        assert group["Labels"]["role"] == "gpu-worker"
        assert group["NodeRepairConfig"] == {"Enabled": False}
        assert group["UpdateConfig"]["UpdateStrategy"] == "MINIMAL"
        assert not {"InstanceTypes", "DiskSize", "RemoteAccess"} & set(group)
    assert all(group["Strategy"] == "cluster" for group in resources(template, "AWS::EC2::PlacementGroup"))


def test_nodes_wait_for_the_security_group_rules(template: dict) -> None:
    for resource in template.values():
        if resource["Type"] == "AWS::EKS::Nodegroup":
            waits = {template[name]["Type"] for name in resource["DependsOn"]}
            assert {"AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"} <= waits


def test_volumes_are_encrypted_and_fast_and_metadata_is_guarded(template: dict) -> None:
    for item in resources(template, "AWS::EC2::LaunchTemplate"):
        data = item["LaunchTemplateData"]
        (volume,) = [mapping["Ebs"] for mapping in data["BlockDeviceMappings"]]
        assert volume["Encrypted"] is True
        assert volume["VolumeSize"] >= 100
        assert volume["Throughput"] >= 600
        assert data["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 2}
        assert "FastImagePull: true" in data["UserData"]["Fn::Base64"]
