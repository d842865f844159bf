"""Proof that the service runs and that the KV cache crosses EFA, as part of the deployment."""

from pathlib import Path
from typing import cast

from aws_cdk import (
    ArnFormat,
    CustomResource,
    Duration,
    Stack,
    aws_eks_v2 as eks,
    aws_iam as iam,
    aws_lambda as lambda_,
    aws_logs as logs,
    aws_stepfunctions as sfn,
    custom_resources as cr,
)
from constructs import Construct
from constructs.acknowledge import acknowledge
from constructs.handler_function import INVOKE_ACTIONS, HandlerFunction, depend_on_policy_alone, framework_role, handler_role

_ASSET = str(Path(__file__).parent)
# What Lambda does with a function in a VPC, by AWSLambdaVPCAccessExecutionRole.
_VPC_ACTIONS = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
]
_LOG_DELIVERY_ACTIONS = [
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
]
_TRACE_ACTIONS = [
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
]


class Verification(Construct):
    """Completes only when the service runs and answers right; fails early, with the cause, when it never will.

    The handlers reach the Kubernetes API through an access entry of their own, bound to `group`: bind that to a Role.
    Two resources use them, which the caller places in the order of its stack:

    * `teardown()` between the operator and the RayService: when it is deleted, it waits until no pod of the RayService
      is left, for ten minutes at most, and then lets the stack go whatever the cluster says;
    * `verify()` last: waits for up to 54 minutes and says what it was waiting for. Verifies again when a property
      changes, and makes KubeRay replace a Ray cluster whose configuration changed, which it would not do by itself.
    """

    group = "ray-llm-verification"
    """Kubernetes group of the handlers."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        cluster_name: str,
        namespace: str,
        log_group: logs.ILogGroup,
    ) -> None:
        super().__init__(scope, id)
        self._cluster_name, self._namespace = cluster_name, namespace
        on_event = HandlerFunction(
            self,
            "OnEvent",
            description="Starts the clock of the verification and of the teardown",
            asset=_ASSET,
            handler="handler.index.on_event",
            log_group=log_group,
            timeout=Duration.minutes(1),
        )
        role = self._looking_role(cluster_name, log_group)
        is_complete = HandlerFunction(
            self,
            "IsComplete",
            description="Looks at the service: not yet, verified, or never",
            asset=_ASSET,
            handler="handler.index.is_complete",
            log_group=log_group,
            timeout=Duration.minutes(15),
            role=role,
            vpc=cluster.vpc,
            security_groups=[cluster.cluster_security_group],
        )
        self._access = eks.CfnAccessEntry(
            self, "AccessEntry", cluster_name=cluster.cluster_name, principal_arn=role.role_arn, kubernetes_groups=[self.group]
        )
        self._provider = self._framework(on_event, is_complete, log_group)
        acknowledge(
            self,
            "AwsSolutions-IAM5[Resource::*]",
            "A function in a VPC, log delivery of a state machine and X-Ray use actions that know no resource names.",
        )

    def teardown(self, id: str, *, ray_service: str) -> CustomResource:
        """The resource whose deletion waits for the pods."""
        return self._resource(id, "Custom::RayServiceTeardown", {"RayService": ray_service})

    def verify(
        self,
        id: str,
        *,
        ray_service: str,
        workers: int,
        cluster_digest: str,
        serve_digest: str,
        model: str,
        max_model_len: int,
        kv_backend: str,
        verify: str,
    ) -> CustomResource:
        """The resource that completes with the proof, which its attributes hold."""
        properties = {
            "RayService": ray_service,
            "Workers": workers,
            "ClusterDigest": cluster_digest,
            "ServeDigest": serve_digest,
            "Model": model,
            "MaxModelLen": max_model_len,
            "KvBackend": kv_backend,
            "Verify": verify,
        }
        return self._resource(id, "Custom::Verification", properties)

    def _resource(self, id: str, resource_type: str, properties: dict[str, str | int]) -> CustomResource:
        resource = CustomResource(
            self,
            id,
            resource_type=resource_type,
            service_token=self._provider.service_token,
            service_timeout=Duration.minutes(58),
            properties={"ClusterName": self._cluster_name, "Namespace": self._namespace, **properties},
        )
        resource.node.add_dependency(self._access)
        return resource

    def _looking_role(self, cluster_name: str, log_group: logs.ILogGroup) -> iam.Role:
        role = handler_role(
            self, "IsCompleteRole", description="Looks at the RayService, its pods and its endpoint", log_group=log_group
        )
        arn = Stack.of(self).format_arn(
            service="eks", resource="cluster", resource_name=cluster_name, arn_format=ArnFormat.SLASH_RESOURCE_NAME
        )
        role.add_to_policy(iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[arn]))
        role.add_to_policy(iam.PolicyStatement(actions=_VPC_ACTIONS, resources=["*"]))
        return role

    def _framework(self, on_event: lambda_.Function, is_complete: lambda_.Function, log_group: logs.ILogGroup) -> cr.Provider:
        """The library's framework with roles that name what they touch, logs in this stack, and traces."""
        event_role = framework_role(
            self,
            "OnEventFrameworkRole",
            description="Runs the provider framework of the verification: events",
            log_group=log_group,
            handlers=[on_event],
        )
        complete_role = framework_role(
            self,
            "IsCompleteFrameworkRole",
            description="Runs the provider framework of the verification: polls",
            log_group=log_group,
            handlers=[is_complete],
        )
        provider = cr.Provider(
            self,
            "Provider",
            on_event_handler=on_event,
            is_complete_handler=is_complete,
            query_interval=Duration.seconds(20),
            total_timeout=Duration.minutes(55),
            log_group=log_group,
            framework_on_event_role=event_role.without_policy_updates(),
            framework_complete_and_timeout_role=complete_role.without_policy_updates(),
            disable_waiter_state_machine_logging=False,
            waiter_state_machine_log_options=cr.LogOptions(destination=log_group, level=sfn.LogLevel.ALL),
        )
        machine = provider.node.find_child("waiter-state-machine")
        resource = cast(sfn.CfnStateMachine, machine.node.find_child("Resource"))
        resource.tracing_configuration = sfn.CfnStateMachine.TracingConfigurationProperty(enabled=True)
        event_role.add_to_policy(iam.PolicyStatement(actions=["states:StartExecution"], resources=[resource.ref]))
        polls = [cast(lambda_.Function, provider.node.find_child(f"framework-{name}")) for name in ("isComplete", "onTimeout")]
        waiter = cast(iam.Role, machine.node.find_child("Role"))
        cast(iam.CfnRole, waiter.node.default_child).description = "Runs the polls of the verification"
        policy = cast(iam.CfnPolicy, waiter.node.find_child("DefaultPolicy").node.default_child)
        policy.policy_document = iam.PolicyDocument(
            statements=[
                iam.PolicyStatement(actions=INVOKE_ACTIONS[1:], resources=[function.function_arn for function in polls]),
                iam.PolicyStatement(actions=_LOG_DELIVERY_ACTIONS, resources=["*"]),
                iam.PolicyStatement(actions=_TRACE_ACTIONS, resources=["*"]),
            ]
        )
        # As in depend_on_policy_alone: the role is implied.
        resource.add_override("DependsOn", [policy.logical_id])
        for function in polls:
            depend_on_policy_alone(function, complete_role)
        depend_on_policy_alone(cast(lambda_.Function, provider.node.find_child("framework-onEvent")), event_role)
        return provider
