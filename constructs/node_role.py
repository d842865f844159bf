"""The role of the cluster's EC2 nodes."""

from aws_cdk import aws_iam as iam
from constructs import Construct


class NodeRole(iam.Role):
    """Join the cluster, pull images, be reached by Session Manager; nothing for pods.

    The VPC CNI's permissions are not here: the add-on has them through Pod Identity, so no other pod of the node does.
    """

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(
            scope,
            id,
            description="EC2 nodes of the EKS cluster: join, pull images, Session Manager",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name(name)
                for name in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore")
            ],
        )
