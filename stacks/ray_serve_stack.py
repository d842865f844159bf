"""The operator, the RayService and the commands to use it."""

from dataclasses import asdict

from aws_cdk import CfnOutput, Environment, Stack, aws_eks_v2 as eks
from cdk8s import App as Cdk8sApp
from constructs import Construct
from constructs.efa_node_group import EfaNodeGroup
from constructs.endpoint_check_role import EndpointCheckRole
from constructs.helm_release import HelmRelease
from constructs.system_node_group import SystemNodeGroup

from charts.endpoint_check_access import ENDPOINT_CHECK_GROUP, endpoint_check_access
from charts.kuberay_operator import kuberay_operator
from charts.ray_service import RayServiceChart
from charts.serve_config import build_serve_config, serve_config_yaml
from charts.worker_resources import WorkerResources
from settings import Settings
from stacks.endpoint_check import EndpointCheck
from stacks.operator_commands import operator_commands


class RayServeStack(Stack):
    """KubeRay and the model. Deleted in the reverse order: the RayService and its pods before the operator."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        cluster: eks.ICluster,
        system_nodes: SystemNodeGroup,
        gpu_nodes: EfaNodeGroup,
        endpoint_check: EndpointCheck | None,
        env: Environment,
    ) -> None:
        super().__init__(
            scope,
            id,
            stack_name=f"{settings.cluster_name}-ray-serve",
            description="KubeRay operator and a RayService with disaggregated prefill and decode behind one endpoint",
            env=env,
        )
        operator = HelmRelease(
            self,
            "KubeRayOperator",
            cluster=cluster,
            **asdict(kuberay_operator(version=settings.kuberay_version, node_labels=system_nodes.labels)),
        )
        chart = RayServiceChart(
            Cdk8sApp(),
            "RayService",
            name=settings.ray_service_name,
            namespace=settings.namespace,
            image=settings.dlc_image,
            ray_version=settings.ray_version,
            serve_config=serve_config_yaml(_serve_config(settings)),
            prefill_workers=settings.prefill_workers,
            decode_workers=settings.decode_workers,
            worker=_worker_resources(settings),
            system_node_labels=system_nodes.labels,
            gpu_node_labels=gpu_nodes.labels,
            gpu_taint_key=gpu_nodes.taint_key,
            hf_token_secret=settings.hf_token_secret,
        )
        ray_service = eks.KubernetesManifest(self, "RayService", cluster=cluster, manifest=chart.to_json(), overwrite=True)
        ray_service.node.add_dependency(operator)
        if endpoint_check:
            access = EndpointCheckRole(
                self,
                "EndpointCheck",
                cluster=cluster,
                name=endpoint_check.stage_role_name,
                assumed_by_arn=endpoint_check.pipeline_role_arn,
                group=ENDPOINT_CHECK_GROUP,
                manifest=endpoint_check_access(namespace=settings.namespace),
            )
            access.node.add_dependency(ray_service)

        for command in operator_commands(settings):
            CfnOutput(self, command.output, value=command.text, description=command.description)


def _serve_config(settings: Settings) -> dict:
    return build_serve_config(
        model_id=settings.model_id,
        model_source=settings.model_source,
        prefill_replicas=settings.prefill_replicas,
        decode_replicas=settings.decode_replicas,
        tensor_parallel_size=settings.tensor_parallel_size,
        max_model_len=settings.max_model_len,
        kv_backend=settings.kv_backend,
        accelerator_type=settings.gpu_instance.ray_accelerator_type,
        gpu_memory_mib=settings.gpu_instance.gpu_memory_mib,
    )


def _worker_resources(settings: Settings) -> WorkerResources:
    instance = settings.gpu_instance
    return WorkerResources.of_node(
        vcpus=instance.vcpus, memory_mib=instance.memory_mib, gpus=instance.gpu_count, efa_interfaces=instance.efa_interfaces
    )
