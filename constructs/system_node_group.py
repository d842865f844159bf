"""CPU nodes for everything that needs no GPU."""

from aws_cdk import aws_ec2 as ec2, aws_eks_v2 as eks, aws_iam as iam
from constructs import Construct
from constructs.node_launch_template import NodeLaunchTemplate


class SystemNodeGroup(Construct):
    """A managed node group for CoreDNS, the KubeRay operator, the Ray head and other pods without a GPU.

    `labels` are what a pod selects these nodes by; there is no taint.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        kubernetes_version: str,
        node_role: iam.IRole,
        instance_type: str,
        count: int,
        subnets: list[ec2.ISubnet],
    ) -> None:
        super().__init__(scope, id)
        self.labels = {"role": "system"}
        template = NodeLaunchTemplate(self, "LaunchTemplate", instance_type=instance_type)
        self.node_group = eks.CfnNodegroup(
            self,
            "NodeGroup",
            cluster_name=cluster.cluster_name,
            nodegroup_name="system",
            node_role=node_role.role_arn,
            version=kubernetes_version,
            ami_type="AL2023_x86_64_STANDARD",
            subnets=[subnet.subnet_id for subnet in subnets],
            scaling_config=eks.CfnNodegroup.ScalingConfigProperty(min_size=count, desired_size=count, max_size=count + 1),
            update_config=eks.CfnNodegroup.UpdateConfigProperty(max_unavailable=1),
            node_repair_config=eks.CfnNodegroup.NodeRepairConfigProperty(enabled=True),
            labels=self.labels,
            launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
                id=template.launch_template_id, version=template.latest_version_number
            ),
        )
