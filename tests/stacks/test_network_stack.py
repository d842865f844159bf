"""The VPC over zones found at deploy time."""

import json


def test_three_zones_with_a_private_and_a_public_subnet_each(synth) -> None:
    zones = [subnet["Properties"]["AvailabilityZone"]["Fn::GetAtt"][1] for subnet in synth().resources("AWS::EC2::Subnet")]
    assert sorted(zones) == ["Zone1", "Zone1", "Zone2", "Zone2", "Zone3", "Zone3"]
    assert not any(subnet["Properties"].get("MapPublicIpOnLaunch") for subnet in synth().resources("AWS::EC2::Subnet"))


def test_subnets_carry_the_tags_that_load_balancers_look_for(synth) -> None:
    tags = [{tag["Key"] for tag in subnet["Properties"]["Tags"]} for subnet in synth().resources("AWS::EC2::Subnet")]
    assert sum("kubernetes.io/role/internal-elb" in keys for keys in tags) == 3
    assert sum("kubernetes.io/role/elb" in keys for keys in tags) == 3


def test_nat_gateways_follow_the_setting(synth) -> None:
    assert len(synth().resources("AWS::EC2::NatGateway")) == 1
    assert len(synth(NAT_GATEWAYS="3").resources("AWS::EC2::NatGateway")) == 3


def test_nothing_but_preflight_and_zone_finder_depends_on_type_and_zone(synth) -> None:
    """So a second GPU type cannot move a subnet."""

    def others(templates) -> dict:
        resources = templates["network"]["Resources"]
        return {
            key: value for key, value in resources.items() if not value["Type"].startswith(("Custom::Gpu", "Custom::Preflight"))
        }

    assert others(synth()) == others(synth(GPU_NODE_TYPE="p5.48xlarge", GPU_AZ="sa-east-1b"))
    zones = synth(GPU_NODE_TYPE="p5.48xlarge", GPU_AZ="sa-east-1b").one("Custom::GpuZones")
    assert (zones["InstanceType"], zones["WantedZone"]) == ("p5.48xlarge", "sa-east-1b")


def test_image_layers_bypass_nat(synth) -> None:
    endpoint = synth().one("AWS::EC2::VPCEndpoint")
    assert "s3" in json.dumps(endpoint["ServiceName"])
    assert len(endpoint["RouteTableIds"]) == 6


def test_flow_logs_are_kept_and_removed_with_the_stack(synth) -> None:
    flow_log = synth().one("AWS::EC2::FlowLog")
    assert flow_log["TrafficType"] == "ALL"
    for group in synth().resources("AWS::Logs::LogGroup"):
        assert group["DeletionPolicy"] == "Delete"
        assert group["Properties"]["RetentionInDays"] == 30


def test_custom_resources_give_up_in_minutes(synth) -> None:
    for kind in ("Custom::Preflight", "Custom::GpuZones", "Custom::GpuSubnet"):
        assert int(synth().one(kind)["ServiceTimeout"]) <= 180


def test_gpu_zone_is_an_output(synth) -> None:
    assert synth()["network"]["Outputs"]["GpuAvailabilityZone"]["Value"]["Fn::GetAtt"][1] == "Zone"
