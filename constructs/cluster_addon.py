"""An EKS managed add-on."""

from aws_cdk import aws_eks_v2 as eks, aws_iam as iam
from constructs import Construct


class ClusterAddon(Construct):
    """The add-on in the version that EKS has as default for the cluster's Kubernetes version.

    Fields that someone changed in the cluster are put back (OVERWRITE), so that the template stays the truth. AWS
    permissions come from `role` through Pod Identity for `service_account`; give both or none.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        name: str,
        service_account: str | None = None,
        role: iam.IRole | None = None,
    ) -> None:
        super().__init__(scope, id)
        eks.CfnAddon(
            self,
            "Addon",
            cluster_name=cluster.cluster_name,
            addon_name=name,
            resolve_conflicts="OVERWRITE",
            pod_identity_associations=[
                eks.CfnAddon.PodIdentityAssociationProperty(service_account=service_account, role_arn=role.role_arn)
            ]
            if service_account and role
            else None,
        )
