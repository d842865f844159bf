"""GPU nodes with Elastic Fabric Adapter for an EKS cluster."""

from typing import Any, cast

from aws_cdk import aws_ec2 as ec2, aws_eks_v2 as eks, aws_iam as iam
from constructs import Construct
from constructs.node_launch_template import NodeLaunchTemplate

from catalog.efa_instance_type import EfaInstanceType


class EfaNodeGroup(Construct):
    """A managed node group whose nodes reach each other over EFA.

    Guarantees:

    * one EFA interface on every network card of the type that takes one, each in the cluster's security group (a launch
      template with interfaces replaces it, and without it pods are unreachable) and in one that allows all traffic from
      and to itself (EFA packets match no CIDR rule, not even 0.0.0.0/0);
    * all nodes in one subnet and one cluster placement group, which EFA needs and which keeps latency low;
    * IMDSv2 only, encrypted volumes, RAID0 over the instance's NVMe disks where it has any, no public address;
    * a taint that keeps other pods off the GPUs, and `labels` to select the nodes by.

    `min_size` is 0, so a person may scale the group to zero and back without the template objecting. Updates replace
    nodes in place, one at a time, instead of asking for GPUs beyond `count`. Automatic node repair is off: replacing a
    GPU node means asking for capacity that may not come back, and a wrong verdict would end the running service.

    Usable in any CDK application that has an `aws_eks_v2` cluster:

        >>> from aws_cdk import App, Stack, aws_ec2 as ec2, aws_eks_v2 as eks
        >>> from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
        >>> from catalog.efa_instance_type import efa_instance_types
        >>> from constructs.efa_node_group import EfaNodeGroup
        >>> from constructs.node_role import NodeRole
        >>> stack = Stack(App(), "Mine")
        >>> vpc = ec2.Vpc(stack, "Vpc", max_azs=2)
        >>> cluster = eks.Cluster(
        ...     stack, "Cluster", vpc=vpc, version=eks.KubernetesVersion.V1_35,
        ...     default_capacity_type=eks.DefaultCapacityType.NODEGROUP, default_capacity=0,
        ...     kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=KubectlV35Layer(stack, "Kubectl")),
        ... )
        >>> group = EfaNodeGroup(
        ...     stack, "Gpu", cluster=cluster, kubernetes_version="1.35", node_role=NodeRole(stack, "NodeRole"),
        ...     name="gpu-workers", count=2, instance=efa_instance_types()["g6.8xlarge"],
        ...     subnet_id=vpc.private_subnets[0].subnet_id,
        ... )
        >>> group.labels["role"]
        'gpu-worker'
    """

    taint_key = "nvidia.com/gpu"

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        kubernetes_version: str,
        node_role: iam.IRole,
        name: str,
        instance: EfaInstanceType,
        count: int,
        subnet_id: str,
    ) -> None:
        super().__init__(scope, id)
        # The NVIDIA plugin's chart only schedules onto nodes that say they have a GPU.
        self.labels = {"role": "gpu-worker", "nvidia.com/gpu.present": "true"}
        placement_group = ec2.CfnPlacementGroup(self, "PlacementGroup", strategy="cluster")
        template = NodeLaunchTemplate(self, "LaunchTemplate", instance_type=instance.name, instance_store=instance.nvme_gb > 0)
        security_group = _EfaSecurityGroup(self, "SecurityGroup", vpc_id=cluster.vpc.vpc_id)
        resource = cast(ec2.CfnLaunchTemplate, template.node.default_child)
        resource.add_property_override("LaunchTemplateData.Placement", {"GroupName": placement_group.ref})
        resource.add_property_override(
            "LaunchTemplateData.NetworkInterfaces",
            _network_interfaces(instance, groups=[cluster.cluster_security_group_id, security_group.attr_group_id]),
        )
        self.node_group = eks.CfnNodegroup(
            self,
            "NodeGroup",
            cluster_name=cluster.cluster_name,
            nodegroup_name=name,
            node_role=node_role.role_arn,
            version=kubernetes_version,
            ami_type="AL2023_x86_64_NVIDIA",
            subnets=[subnet_id],
            scaling_config=eks.CfnNodegroup.ScalingConfigProperty(min_size=0, desired_size=count, max_size=count),
            update_config=eks.CfnNodegroup.UpdateConfigProperty(max_unavailable=1, update_strategy="MINIMAL"),
            node_repair_config=eks.CfnNodegroup.NodeRepairConfigProperty(enabled=False),
            labels=self.labels,
            taints=[eks.CfnNodegroup.TaintProperty(key=self.taint_key, value="true", effect="NO_SCHEDULE")],
            launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
                id=template.launch_template_id, version=template.latest_version_number
            ),
        )
        # Nodes never run without the rules, neither while they start nor while the stack is deleted.
        self.node_group.node.add_dependency(security_group)


class _EfaSecurityGroup(ec2.CfnSecurityGroup):
    """Level 1, because the level 2 group drops the egress rule to itself when it also allows all outbound traffic."""

    def __init__(self, scope: Construct, id: str, *, vpc_id: str) -> None:
        super().__init__(scope, id, vpc_id=vpc_id, group_description="EFA traffic between the GPU nodes")
        rule: dict[str, Any] = {"group_id": self.attr_group_id, "ip_protocol": "-1"}
        ec2.CfnSecurityGroupIngress(
            self, "FromItself", source_security_group_id=self.attr_group_id, description="EFA from other GPU nodes", **rule
        )
        ec2.CfnSecurityGroupEgress(
            self, "ToItself", destination_security_group_id=self.attr_group_id, description="EFA to other GPU nodes", **rule
        )


def _network_interfaces(instance: EfaInstanceType, *, groups: list[str]) -> list[dict[str, Any]]:
    """Card 0 carries the node's IP traffic; further cards carry EFA alone, which costs no IP address.

    Further cards use device 1, as EFA on card 0 is device 0 of its own; where card 0 takes no EFA (P6-B300), AWS's own
    template for the type numbers the EFA devices 0.
    """
    further_device = 1 if instance.network_cards[0] else 0
    interfaces = []
    for card, takes_efa in enumerate(instance.network_cards):
        if card == 0:
            kind = "efa" if takes_efa else "interface"
        elif takes_efa:
            kind = "efa-only"
        else:
            continue
        interfaces.append(
            {
                "NetworkCardIndex": card,
                "DeviceIndex": 0 if card == 0 else further_device,
                "InterfaceType": kind,
                "Groups": groups,
                "DeleteOnTermination": True,
                "Description": "EFA" if takes_efa else "IP",
            }
        )
    return interfaces
