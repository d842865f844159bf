"""The VPC, over zones that can hold the GPU nodes."""

from aws_cdk import CfnOutput, Environment, Stack
from constructs import Construct
from constructs.exports import export
from constructs.gpu_zones.construct import GpuZones
from constructs.handler_logs import HandlerLogs
from constructs.network import Network

from settings import Settings

# Three zones for the control plane where the region has them; GpuZones uses a zone twice where it has only two.
_ZONES = 3


class NetworkStack(Stack):
    """VPC, NAT, endpoints and flow logs. Depends on no other stack and on no lookup."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings, env: Environment) -> None:
        super().__init__(
            scope,
            id,
            stack_name=f"{settings.cluster_name}-network",
            description="VPC for a Ray Serve cluster on EKS, over the availability zones that offer its GPU instance type",
            env=env,
        )
        logs = HandlerLogs(self, "HandlerLogs")
        self._gpu_zones = GpuZones(
            self,
            "GpuZones",
            instance_type=settings.gpu_node_type,
            system_instance_type=settings.system_node_type,
            wanted_zone=settings.gpu_az,
            count=_ZONES,
            log_group=logs.log_group,
        )
        network = Network(self, "Network", zones=self._gpu_zones.zones, nat_gateways=settings.nat_gateways)
        self.vpc = network.vpc
        self.gpu_subnet_id, gpu_zone = self._gpu_zones.subnet_for_gpu_nodes(network.vpc.private_subnets)
        export(
            self,
            VPC=self.vpc.vpc_id,
            Subnet_of_the_GPU_nodes=self.gpu_subnet_id,
            **{f"Private_subnet_{number}": subnet.subnet_id for number, subnet in enumerate(self.vpc.private_subnets, start=1)},
        )
        CfnOutput(self, "GpuAvailabilityZone", value=gpu_zone, description="Zone that holds the GPU nodes")

    @property
    def availability_zones(self) -> list[str]:
        """The zones found at deploy time; without this the library would look them up at synth, with credentials."""
        return self._gpu_zones.zones
