"""The cluster, its nodes and what the nodes advertise."""

from dataclasses import asdict

from aws_cdk import CfnOutput, Environment, Stack, aws_ec2 as ec2
from constructs import Construct
from constructs.cluster_addon import ClusterAddon
from constructs.efa_node_group import EfaNodeGroup
from constructs.eks_cluster import EksCluster
from constructs.exports import export
from constructs.helm_release import HelmRelease
from constructs.node_role import NodeRole
from constructs.system_node_group import SystemNodeGroup

from catalog.image_registry import eks_addon_registry
from charts.efa_device_plugin import efa_device_plugin
from charts.nvidia_device_plugin import nvidia_device_plugin
from settings import Settings


class EksStack(Stack):
    """Control plane, add-ons, CPU nodes, EFA GPU nodes, device plugins."""

    def __init__(
        self, scope: Construct, id: str, *, settings: Settings, vpc: ec2.IVpc, gpu_subnet_id: str, env: Environment
    ) -> None:
        super().__init__(
            scope,
            id,
            stack_name=f"{settings.cluster_name}-eks",
            description="EKS cluster with CPU system nodes and EFA GPU nodes for Ray Serve",
            env=env,
        )
        control_plane = EksCluster(
            self,
            "ControlPlane",
            name=settings.cluster_name,
            version=settings.kubernetes,
            vpc=vpc,
            public_access_cidrs=settings.public_access_cidrs,
        )
        self.cluster = cluster = control_plane.cluster
        node_role = NodeRole(self, "NodeRole")
        self.system_nodes = SystemNodeGroup(
            self,
            "SystemNodes",
            cluster=cluster,
            kubernetes_version=settings.k8s_version,
            node_role=node_role,
            instance_type=settings.system_node_type,
            count=settings.system_node_count,
            subnets=vpc.private_subnets,
        )
        self.gpu_nodes = EfaNodeGroup(
            self,
            "GpuNodes",
            cluster=cluster,
            kubernetes_version=settings.k8s_version,
            node_role=node_role,
            name=settings.gpu_nodegroup_name,
            instance=settings.gpu_instance,
            count=settings.gpu_node_count,
            subnet_id=gpu_subnet_id,
        )
        efa_plugin = HelmRelease(
            self,
            "EfaDevicePlugin",
            cluster=cluster,
            **asdict(
                efa_device_plugin(
                    registry=eks_addon_registry(settings.region),
                    instance_type=settings.gpu_node_type,
                    node_labels=self.gpu_nodes.labels,
                    taint_key=self.gpu_nodes.taint_key,
                )
            ),
        )
        nvidia_plugin = HelmRelease(
            self,
            "NvidiaDevicePlugin",
            cluster=cluster,
            **asdict(nvidia_device_plugin(node_labels=self.gpu_nodes.labels, taint_key=self.gpu_nodes.taint_key)),
        )
        for nodes in (self.system_nodes, self.gpu_nodes):
            nodes.node_group.node.add_dependency(*control_plane.node_prerequisites)
        for needs_cpu_nodes in (
            ClusterAddon(self, "CoreDns", cluster=cluster, name="coredns"),
            ClusterAddon(self, "MetricsServer", cluster=cluster, name="metrics-server"),
            efa_plugin,
            nvidia_plugin,
        ):
            needs_cpu_nodes.node.add_dependency(self.system_nodes.node_group)

        export(self, Cluster_name=cluster.cluster_name, Kubectl_provider=control_plane.kubectl_service_token)
        CfnOutput(self, "ClusterName", value=cluster.cluster_name, description="Name of the EKS cluster")
        CfnOutput(
            self,
            "KubeconfigCommand",
            value=f"aws eks update-kubeconfig --name {cluster.cluster_name} --region {self.region} "
            f"--role-arn {control_plane.admin_role.role_arn}",
            description="Lets kubectl reach the cluster; any principal of the account that may assume the role can run it",
        )
