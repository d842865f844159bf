"""Checks of the account and the region before anything costs money."""

from pathlib import Path
from typing import cast

from aws_cdk import (
    ArnFormat,
    CustomResource,
    Duration,
    Stack,
    aws_iam as iam,
    aws_lambda as lambda_,
    aws_logs as logs,
    custom_resources as cr,
)
from constructs import Construct
from constructs.handler_function import HandlerFunction, depend_on_policy_alone, framework_role
from constructs.preflight.handler.quota import QUOTAS
from constructs.preflight.handler.request import private_image

_LIMIT_ACTIONS = ["servicequotas:GetServiceQuota", "servicequotas:GetAWSDefaultServiceQuota"]


class Preflight(Construct):
    """Fails the deployment within a minute when the account or the region cannot hold it.

    One event message lists everything that is wrong, each with the way out: type not offered, no EFA, vCPU quota too
    low for the node groups beside what already runs, Kubernetes version or image tag not there, region not enabled,
    system nodes too small for the Ray head. What cannot be looked up is reported in `report` and stops nothing. Runs
    again when one of its properties changes. What must wait for it depends on `resource`.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        kubernetes_version: str,
        gpu_node_type: str,
        gpu_node_count: int,
        gpu_zone: str | None,
        system_node_type: str,
        system_node_count: int,
        image: str,
        role: iam.Role,
        log_group: logs.ILogGroup,
    ) -> None:
        super().__init__(scope, id)
        for statement in self._statements(image):
            role.add_to_policy(statement)
        function = HandlerFunction(
            self,
            "Handler",
            description="Checks quotas, offerings, versions and the image before anything is made",
            asset=str(Path(__file__).parent),
            handler="handler.index.handler",
            log_group=log_group,
            timeout=Duration.minutes(2),
            role=role,
        )
        provider_role = framework_role(
            self,
            "ProviderRole",
            description="Runs the provider framework of the preflight",
            log_group=log_group,
            handlers=[function],
        )
        provider = cr.Provider(
            self,
            "Provider",
            on_event_handler=function,
            log_group=log_group,
            framework_on_event_role=provider_role.without_policy_updates(),
        )
        depend_on_policy_alone(cast(lambda_.Function, provider.node.find_child("framework-onEvent")), provider_role)
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::Preflight",
            service_token=provider.service_token,
            service_timeout=Duration.minutes(3),
            properties={
                "ClusterName": cluster_name,
                "KubernetesVersion": kubernetes_version,
                "GpuNodeType": gpu_node_type,
                "GpuNodeCount": gpu_node_count,
                "GpuZone": gpu_zone or "",
                "SystemNodeType": system_node_type,
                "SystemNodeCount": system_node_count,
                "Image": image,
            },
        )
        self.report = self.resource.get_att_string("Report")
        """Token for what was checked and what could not be."""

    def _statements(self, image: str) -> list[iam.PolicyStatement]:
        """What has resource names: the limits, the same whatever is set, and the one image repository."""
        stack = Stack.of(self)
        limits = [
            stack.format_arn(
                service="servicequotas",
                resource="ec2",
                resource_name=quota.code,
                arn_format=ArnFormat.SLASH_RESOURCE_NAME,
            )
            for quota in QUOTAS
        ]
        statements = [iam.PolicyStatement(actions=_LIMIT_ACTIONS, resources=limits)]
        found = private_image(image)
        if found:
            account, region, repository, _ = found
            arn = stack.format_arn(
                service="ecr",
                account=account,
                region=region,
                resource="repository",
                resource_name=repository,
                arn_format=ArnFormat.SLASH_RESOURCE_NAME,
            )
            statements.append(iam.PolicyStatement(actions=["ecr:BatchGetImage"], resources=[arn]))
        return statements
