"""The EKS control plane with what a node needs before it can join."""

from typing import cast

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack, aws_ec2 as ec2, aws_eks_v2 as eks, aws_iam as iam, aws_kms as kms
from aws_cdk import aws_lambda as lambda_, aws_logs as logs
from catalog.kubernetes_version import KubernetesVersion
from constructs import Construct
from constructs.cluster_addon import ClusterAddon
from constructs.handler_function import allow_vpc, handler_role
from constructs.handler_logs import HandlerLogs
from constructs.kubectl_layer import kubectl_layer


class EksCluster(Construct):
    """A control plane, the kubectl provider that manages it, and the add-ons without which no node becomes ready.

    Guarantees: access by EKS access entries alone, and only for `admin_role` and the kubectl provider; secrets
    encrypted with a key of this stack; all control-plane logs in a log group of this stack; private endpoint always on,
    the public one only for `public_access_cidrs` (off when empty); no silent slide into paid extended support.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        version: KubernetesVersion,
        vpc: ec2.IVpc,
        public_access_cidrs: tuple[str, ...],
    ) -> None:
        super().__init__(scope, id)
        key = kms.Key(
            self,
            "SecretsKey",
            description=f"Kubernetes secrets of {name}",
            enable_key_rotation=True,
            pending_window=Duration.days(7),
            removal_policy=RemovalPolicy.DESTROY,
        )
        # EKS would make this log group itself and leave it behind.
        control_plane_logs = logs.LogGroup(
            self,
            "ControlPlaneLogs",
            log_group_name=f"/aws/eks/{name}/cluster",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        handler_logs = HandlerLogs(self, "HandlerLogs")
        self.admin_role = iam.Role(
            self,
            "AdminRole",
            description=f"Kubernetes administrator of {name}; assumed by kubectl through the kubeconfig command",
            assumed_by=iam.AccountRootPrincipal(),
        )
        self.cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=name,
            version=eks.KubernetesVersion.of(version.version),
            vpc=vpc,
            vpc_subnets=[ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)],
            role=_control_plane_role(self),
            endpoint_access=_endpoint_access(public_access_cidrs),
            secrets_encryption_key=key,
            cluster_logging=list(eks.ClusterLoggingTypes),
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_cluster_creator_admin_permissions=False,
            bootstrap_self_managed_addons=False,
            masters_role=self.admin_role,
            output_config_command=False,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=kubectl_layer(self, "KubectlLayer", version=version),
                role=_kubectl_role(self, log_group=handler_logs.log_group),
                private_subnets=vpc.private_subnets,
            ),
        )
        resource = cast(eks.CfnCluster, self.cluster.node.default_child)
        resource.upgrade_policy = eks.CfnCluster.UpgradePolicyProperty(support_type=version.support.upper())
        resource.node.add_dependency(control_plane_logs)
        _log_to(self.cluster, log_group=handler_logs.log_group)
        self.node_prerequisites = self._node_prerequisites()
        """Nodes depend on these: a node without them never becomes ready."""

    def _node_prerequisites(self) -> list[ClusterAddon]:
        cni_role = iam.Role(
            self,
            "VpcCniRole",
            description="VPC CNI add-on: assigns addresses to pods",
            assumed_by=iam.ServicePrincipal("pods.eks.amazonaws.com").with_session_tags(),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKS_CNI_Policy")],
        )
        return [
            ClusterAddon(self, "VpcCni", cluster=self.cluster, name="vpc-cni", service_account="aws-node", role=cni_role),
            ClusterAddon(self, "KubeProxy", cluster=self.cluster, name="kube-proxy"),
            ClusterAddon(self, "PodIdentityAgent", cluster=self.cluster, name="eks-pod-identity-agent"),
            ClusterAddon(self, "NodeMonitoringAgent", cluster=self.cluster, name="eks-node-monitoring-agent"),
        ]


def _control_plane_role(scope: Construct) -> iam.Role:
    return iam.Role(
        scope,
        "ControlPlaneRole",
        description="EKS control plane: network interfaces and instances of the cluster",
        assumed_by=iam.ServicePrincipal("eks.amazonaws.com"),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKSClusterPolicy")],
    )


def _endpoint_access(public_access_cidrs: tuple[str, ...]) -> eks.EndpointAccess:
    if not public_access_cidrs:
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*public_access_cidrs)


def _kubectl_role(scope: Construct, *, log_group: logs.ILogGroup) -> iam.IRole:
    """Without the registry policies that the library would attach: every chart here comes from an HTTP repository."""
    role = handler_role(scope, "KubectlRole", description="Runs kubectl and helm against the cluster", log_group=log_group)
    allow_vpc(role)
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["eks:DescribeCluster"],
            resources=[Stack.of(scope).format_arn(service="eks", resource="cluster", resource_name="*")],
        )
    )
    return role.without_policy_updates()


def _log_to(cluster: eks.Cluster, *, log_group: logs.ILogGroup) -> None:
    """Send the library's two functions to a log group of this stack, so that Lambda makes none that would stay behind."""
    for construct in cluster.node.find_child("KubectlProvider").node.find_all():
        if isinstance(construct, lambda_.CfnFunction):
            construct.logging_config = lambda_.CfnFunction.LoggingConfigProperty(log_group=log_group.log_group_name)
