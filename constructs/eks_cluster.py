"""The EKS control plane with what a node needs before it can join."""

from typing import cast

from aws_cdk import (
    Duration,
    RemovalPolicy,
    Stack,
    aws_ec2 as ec2,
    aws_eks_v2 as eks,
    aws_iam as iam,
    aws_kms as kms,
    aws_lambda as lambda_,
    aws_logs as logs,
)
from constructs import Construct
from constructs.acknowledge import acknowledge, acknowledge_managed_policy
from constructs.cluster_addon import ClusterAddon
from constructs.handler_function import INVOKE_ACTIONS, allow_vpc, depend_on_policy_alone, handler_role
from constructs.handler_logs import HandlerLogs
from constructs.kubectl_layer import kubectl_layer
from constructs.principal import principal

from catalog.kubernetes_version import KubernetesVersion


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
            assumed_by=principal(iam.AccountRootPrincipal()),
        )
        kubectl_role = _kubectl_role(self, cluster_name=name, log_group=handler_logs.log_group)
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
                role=kubectl_role.without_policy_updates(),
                private_subnets=vpc.private_subnets,
            ),
        )
        self.kubectl_service_token = cast(eks.IKubectlProvider, self.cluster.kubectl_provider).service_token
        """What a custom resource of another stack needs to run kubectl or helm."""
        resource = cast(eks.CfnCluster, self.cluster.node.default_child)
        resource.upgrade_policy = eks.CfnCluster.UpgradePolicyProperty(support_type=version.support.upper())
        resource.node.add_dependency(control_plane_logs)
        _own_provider(self.cluster, kubectl_role=kubectl_role, log_group=handler_logs.log_group)
        self.node_prerequisites = self._node_prerequisites()
        """Nodes depend on these: a node without them never becomes ready."""

    def _node_prerequisites(self) -> list[ClusterAddon]:
        cni_role = iam.Role(
            self,
            "VpcCniRole",
            description="VPC CNI add-on: assigns addresses to pods",
            assumed_by=principal(iam.ServicePrincipal("pods.eks.amazonaws.com").with_session_tags()),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKS_CNI_Policy")],
        )
        acknowledge_managed_policy(cni_role, "AmazonEKS_CNI_Policy", "AWS keeps it in step with the add-on's releases.")
        return [
            ClusterAddon(self, "VpcCni", cluster=self.cluster, name="vpc-cni", service_account="aws-node", role=cni_role),
            ClusterAddon(self, "KubeProxy", cluster=self.cluster, name="kube-proxy"),
            ClusterAddon(self, "PodIdentityAgent", cluster=self.cluster, name="eks-pod-identity-agent"),
            ClusterAddon(self, "NodeMonitoringAgent", cluster=self.cluster, name="eks-node-monitoring-agent"),
        ]


def _control_plane_role(scope: Construct) -> iam.Role:
    role = iam.Role(
        scope,
        "ControlPlaneRole",
        description="EKS control plane: network interfaces and instances of the cluster",
        assumed_by=principal(iam.ServicePrincipal("eks.amazonaws.com")),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKSClusterPolicy")],
    )
    acknowledge_managed_policy(
        role, "AmazonEKSClusterPolicy", "EKS requires this policy and extends it as its control plane changes."
    )
    return role


def _endpoint_access(public_access_cidrs: tuple[str, ...]) -> eks.EndpointAccess:
    if not public_access_cidrs:
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*public_access_cidrs)


def _kubectl_role(scope: Construct, *, cluster_name: str, log_group: logs.ILogGroup) -> iam.Role:
    """Without the registry policies that the library would attach: every chart here comes from an HTTP repository."""
    role = handler_role(scope, "KubectlRole", description="Runs kubectl and helm against the cluster", log_group=log_group)
    allow_vpc(role)
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["eks:DescribeCluster"],
            resources=[Stack.of(scope).format_arn(service="eks", resource="cluster", resource_name=cluster_name)],
        )
    )
    return role


def _own_provider(cluster: eks.Cluster, *, kubectl_role: iam.Role, log_group: logs.ILogGroup) -> None:
    """Narrow what the library makes for its kubectl provider, which it has no properties for.

    Both functions log to a group of this stack, so that Lambda makes none that would stay behind; the framework's role
    may write there, use the VPC and invoke the one handler, instead of every version of it.
    """
    provider = cluster.node.find_child("KubectlProvider")
    handler = cast(lambda_.Function, provider.node.find_child("Handler"))
    framework = cast(lambda_.Function, provider.node.find_child("Provider").node.find_child("framework-onEvent"))
    for function in (handler, framework):
        resource = cast(lambda_.CfnFunction, function.node.default_child)
        resource.logging_config = lambda_.CfnFunction.LoggingConfigProperty(log_group=log_group.log_group_name)
    role = cast(iam.Role, framework.role)
    cast(iam.CfnRole, role.node.default_child).description = "Runs the provider framework of the kubectl handler"
    allow_vpc(role)
    policy = cast(iam.CfnPolicy, role.node.find_child("DefaultPolicy").node.default_child)
    policy.policy_document = iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log_group.log_group_arn]),
            iam.PolicyStatement(actions=INVOKE_ACTIONS, resources=[handler.function_arn]),
        ]
    )
    depend_on_policy_alone(handler, kubectl_role)
    depend_on_policy_alone(framework, role)
    acknowledge(handler, "AwsSolutions-L1", "The library tests its kubectl handler on the runtime that it chooses itself.")
    # Only the registry policies that this role does without refer to it.
    cast(Construct, cluster.node.scope).node.try_remove_child("HasEcrPublic")
