"""The operator, the RayService and the commands to use it."""

from dataclasses import asdict

from aws_cdk import CfnOutput, Environment, Stack, aws_eks_v2 as eks
from cdk8s import App as Cdk8sApp
from constructs import Construct
from constructs.efa_node_group import EfaNodeGroup
from constructs.endpoint_check_role import EndpointCheckRole
from constructs.handler_logs import HandlerLogs
from constructs.helm_release import HelmRelease
from constructs.system_node_group import SystemNodeGroup
from constructs.verification.construct import Verification

from charts.digest import serve_digest
from charts.endpoint_check_access import ENDPOINT_CHECK_GROUP, endpoint_check_access
from charts.kuberay_operator import kuberay_operator
from charts.namespace_access import NamespaceAccess
from charts.ray_service import RayServiceChart
from charts.serve_config import build_serve_config, serve_config_yaml
from charts.worker_resources import WorkerResources
from settings import Settings
from stacks.endpoint_check import EndpointCheck
from stacks.operator_commands import operator_commands


class RayServeStack(Stack):
    """KubeRay, the model and the proof that it works.

    Deleted in the reverse order: the RayService, then its pods, then the namespace and the operator.
    """

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
        logs = HandlerLogs(self, "HandlerLogs")
        verification = Verification(
            self,
            "Verification",
            cluster=cluster,
            cluster_name=settings.cluster_name,
            namespace=settings.namespace,
            log_group=logs.log_group,
        )
        operator = HelmRelease(
            self,
            "KubeRayOperator",
            cluster=cluster,
            **asdict(
                kuberay_operator(version=settings.kuberay_version, node_labels=system_nodes.labels).mirrored(
                    settings.chart_repository
                )
            ),
        )
        serve_config = _serve_config(settings)
        access = NamespaceAccess(
            Cdk8sApp(),
            "NamespaceAccess",
            namespace=settings.namespace,
            ray_service=settings.ray_service_name,
            group=verification.group,
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
        namespace = eks.KubernetesManifest(self, "Namespace", cluster=cluster, manifest=access.to_json(), overwrite=True)
        teardown = verification.teardown("Teardown", ray_service=settings.ray_service_name)
        teardown.node.add_dependency(operator, namespace)
        ray_service.node.add_dependency(teardown)
        verified = verification.verify(
            "Verified",
            ray_service=settings.ray_service_name,
            workers=settings.prefill_workers + settings.decode_workers,
            cluster_digest=chart.cluster_digest,
            serve_digest=serve_digest(serve_config),
            model=settings.model_id,
            max_model_len=settings.max_model_len,
            kv_backend=settings.kv_backend,
            verify=settings.verify,
        )
        verified.node.add_dependency(ray_service)
        if endpoint_check:
            check_access = EndpointCheckRole(
                self,
                "EndpointCheck",
                cluster=cluster,
                name=endpoint_check.stage_role_name,
                assumed_by_arn=endpoint_check.pipeline_role_arn,
                group=ENDPOINT_CHECK_GROUP,
                manifest=endpoint_check_access(namespace=settings.namespace),
            )
            check_access.node.add_dependency(namespace)

        for name, description in _PROOF.items():
            CfnOutput(self, name, value=verified.get_att_string(name), description=description)
        CfnOutput(self, "ModelId", value=settings.model_id, description="Name of the model in requests")
        for command in operator_commands(settings):
            CfnOutput(self, command.output, value=command.text, description=command.description)


_PROOF = {
    "PrefillNodes": "Nodes that run prefill, when last verified",
    "DecodeNodes": "Nodes that run decode, when last verified",
    "KvTransferBackend": "NIXL backend that carried the KV cache, and with VERIFY=warn what could not be confirmed",
    "EfaBytesPerRequest": "Bytes that the workers' EFA devices sent for one chat completion",
    "TimeToFirstToken": "From request to first token, through the Kubernetes API server",
    "VerifiedAt": "When the service was verified, UTC",
}


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
