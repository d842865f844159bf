"""Lets the pipeline's check reach the endpoint of a cluster, and do nothing else there."""

from aws_cdk import Stack, aws_eks_v2 as eks, aws_iam as iam
from constructs import Construct
from constructs.principal import principal


class EndpointCheckRole(Construct):
    """An IAM role that one role of the pipeline's account may assume; in the cluster it is a member of one group.

    `manifest` gives that group its rights. `name` is known to the pipeline before the role exists.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        name: str,
        assumed_by_arn: str,
        group: str,
        manifest: list[dict],
    ) -> None:
        super().__init__(scope, id)
        stack = Stack.of(self)
        # The account with a condition instead of the role itself: IAM refuses a principal that does not exist, and
        # ties the policy to the role's unique id, so that a pipeline made anew would not be the same principal.
        trusted = iam.AccountPrincipal(assumed_by_arn.split(":")[4]).with_conditions(
            {"ArnEquals": {"aws:PrincipalArn": assumed_by_arn}}
        )
        role = iam.Role(
            self,
            "Role",
            role_name=name,
            description="Reaches the endpoint for the pipeline's check: the kubeconfig and a forwarded port",
            assumed_by=principal(trusted),
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["eks:DescribeCluster"],
                resources=[stack.format_arn(service="eks", resource="cluster", resource_name=cluster.cluster_name)],
            )
        )
        entry = eks.CfnAccessEntry(
            self, "AccessEntry", cluster_name=cluster.cluster_name, principal_arn=role.role_arn, kubernetes_groups=[group]
        )
        rights = eks.KubernetesManifest(self, "Rights", cluster=cluster, manifest=manifest, overwrite=True)
        entry.node.add_dependency(rights)
