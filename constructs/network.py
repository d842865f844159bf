"""A VPC for an EKS cluster with private nodes."""

from aws_cdk import RemovalPolicy, aws_ec2 as ec2, aws_iam as iam, aws_logs as logs
from constructs import Construct
from constructs.principal import principal


class Network(Construct):
    """Public and private subnets over given zones, NAT, an S3 gateway endpoint and flow logs.

    The S3 endpoint is free and carries the image layers, which would otherwise pass the NAT gateway and be charged.
    The first zone's NAT gateway serves everyone when there is one: put the zone with the most traffic first.
    """

    def __init__(self, scope: Construct, id: str, *, zones: list[str], nat_gateways: int) -> None:
        super().__init__(scope, id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr("10.0.0.0/16"),
            availability_zones=zones,
            nat_gateways=nat_gateways,
            # /18 leaves 16,379 addresses a zone: the VPC CNI gives every pod one.
            subnet_configuration=[
                ec2.SubnetConfiguration(name="Private", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=18),
                ec2.SubnetConfiguration(
                    name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24, map_public_ip_on_launch=False
                ),
            ],
            gateway_endpoints={"S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)},
            restrict_default_security_group=False,
        )
        self._log_flows()

    def _log_flows(self) -> None:
        log_group = logs.LogGroup(
            self, "FlowLogGroup", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
        )
        role = iam.Role(
            self,
            "FlowLogRole",
            description="Writes the VPC flow logs",
            assumed_by=principal(iam.ServicePrincipal("vpc-flow-logs.amazonaws.com")),
        )
        self.vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(log_group, role))
