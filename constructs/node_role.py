"""The role of the cluster's EC2 nodes."""

from aws_cdk import aws_iam as iam
from constructs import Construct
from constructs.acknowledge import acknowledge_managed_policy
from constructs.principal import principal

_POLICIES = {
    "AmazonEKSWorkerNodePolicy": "EKS requires it of every node, and it grants descriptions only.",
    "AmazonEC2ContainerRegistryPullOnly": "Images come from AWS's registries of other accounts; it grants pulling only.",
    "AmazonSSMManagedInstanceCore": "Session Manager replaces SSH keys and open ports; its agent's calls know no resource names.",
}


class NodeRole(iam.Role):
    """Join the cluster, pull images, be reached by Session Manager; nothing for pods.

    The VPC CNI's permissions are not here: the add-on has them through Pod Identity, so no other pod of the node does.
    """

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(
            scope,
            id,
            description="EC2 nodes of the EKS cluster: join, pull images, Session Manager",
            assumed_by=principal(iam.ServicePrincipal("ec2.amazonaws.com")),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in _POLICIES],
        )
        for name, reason in _POLICIES.items():
            acknowledge_managed_policy(self, name, reason)
