"""The pipeline."""

import json
from datetime import date
from pathlib import Path
from typing import cast

from aws_cdk import (
    CfnOutput,
    Environment,
    RemovalPolicy,
    Stack,
    Stage,
    aws_codebuild as codebuild,
    aws_codepipeline as codepipeline,
    aws_iam as iam,
    aws_logs as logs,
    aws_s3 as s3,
    aws_sns as sns,
    aws_sns_subscriptions as subscriptions,
    pipelines,
)
from constructs import Construct
from constructs.artifact_store import ArtifactStore
from constructs.asset_publishing import publish_assets_with_cli
from constructs.bounded_name import bounded_name
from constructs.handler_function import depend_on_policy_alone
from constructs.pipeline_permissions import narrow_pipeline_permissions
from constructs.principal import principal

from catalog.aws_partition import console_url
from delivery_plan import DeliveryPlan, reachable_from_outside
from settings import Settings
from stacks.application import Application
from stacks.artifact_stack import artifact_key_alias
from stacks.delivery_steps import (
    RUNTIMES,
    approval_steps,
    bootstrap_role,
    check_role_statement,
    check_step,
    protect_step,
    synth_step,
    test_step,
)
from stacks.endpoint_check import EndpointCheck

_PACKAGE = Path(__file__).parent.parent / "package.json"


class DeliveryStack(Stack):
    """Source, synth with tests, update of itself, slow tests, then wave by wave: review, approval, deployment, check.

    It runs without Docker, without privileged builds and without lookups. `replicas` are the buckets of the regions
    that stages are in and the pipeline is not.
    """

    def __init__(self, scope: Construct, id: str, *, plan: DeliveryPlan, replicas: dict[str, s3.IBucket], today: date) -> None:
        super().__init__(
            scope,
            id,
            stack_name=plan.name,
            description=f"Pipeline that delivers {', '.join(stage.stage for stage in plan.stages)} from {plan.source.repository}",
            env=Environment(account=plan.source.account, region=plan.source.region),
        )
        self._plan, self._today = plan, today
        self._log_group = logs.LogGroup(
            self,
            "Builds",
            log_group_name=f"/{plan.name}/builds",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        store = ArtifactStore(self, "Artifacts", description=f"Artifacts of the pipeline {plan.name}", log_group=self._log_group)
        self._cache = codebuild.Cache.bucket(store.bucket, prefix="cache")
        self._source = pipelines.CodePipelineSource.connection(
            plan.source.repository, plan.source.branch, connection_arn=plan.source.connection_arn
        )
        pipeline_name = bounded_name(plan.name, 100)
        cli_version = json.loads(_PACKAGE.read_text())["devDependencies"]["aws-cdk"]
        self._pipeline = pipelines.CodePipeline(
            self,
            "Pipeline",
            pipeline_name=pipeline_name,
            pipeline_type=codepipeline.PipelineType.V2,
            # A newer commit waits at each stage until the run before it has left: two would deploy over each other.
            execution_mode=codepipeline.ExecutionMode.QUEUED,
            synth=synth_step(plan, source=self._source, cache=self._cache),
            cli_version=cli_version,
            self_mutation=True,
            # The library takes either one bucket or one for each region.
            artifact_bucket=None if replicas else store.bucket,
            cross_region_replication_buckets={plan.source.region: store.bucket, **replicas} if replicas else None,
            publish_assets_in_parallel=False,
            use_pipeline_role_for_actions=True,
            code_build_defaults=pipelines.CodeBuildOptions(
                partial_build_spec=codebuild.BuildSpec.from_object({"version": "0.2", "phases": {"install": RUNTIMES}}),
                build_environment=codebuild.BuildEnvironment(
                    build_image=codebuild.LinuxBuildImage.AMAZON_LINUX_2023_6,
                    compute_type=codebuild.ComputeType.MEDIUM,
                    privileged=False,
                ),
                logging=codebuild.LoggingOptions(cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=self._log_group)),
            ),
        )
        self._pipeline.add_wave("Test").add_post(test_step(source=self._source, cache=self._cache))
        self._checks = {
            stage.stage: EndpointCheck.between(
                pipeline_name=plan.name,
                pipeline_account=plan.source.account,
                partition=plan.source.partition,
                cluster=stage.cluster_name,
                region=stage.region,
            )
            for stage in plan.stages
            if reachable_from_outside(stage)
        }
        self._check_role = self._make_check_role()
        for stages in plan.waves:
            wave = self._pipeline.add_wave(f"Wave-{stages[0].wave}" if stages[0].wave else stages[0].stage)
            for stage in stages:
                self._add_stage(wave, stage)
        self._pipeline.build_pipeline()
        resource = cast(codepipeline.CfnPipeline, self._pipeline.pipeline.node.default_child)
        # cfn-lint 1.58 reports as an error that the library joins the role's name of a CloudFormation action.
        resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["E3703"]}})
        depend_on_policy_alone(resource, cast(iam.Role, self._pipeline.pipeline.role))
        self._allow_connection()
        self._notify()
        publish_assets_with_cli(
            self._pipeline,
            cli_version=cli_version,
            runtimes=RUNTIMES,
            stacks=f"{self.node.path}/*/*",
            deploy_role_arns=[bootstrap_role(stage, "deploy-role") for stage in plan.stages],
        )
        narrow_pipeline_permissions(
            self._pipeline,
            roles=[self._check_role] if self._check_role else [],
            buckets=[store.bucket, *replicas.values()],
            key_aliases={region: artifact_key_alias(plan.name, region) for region in replicas},
        )
        _describe_roles(self)
        CfnOutput(
            self,
            "PipelineUrl",
            value=f"{console_url(self.region)}/codesuite/codepipeline/pipelines/{pipeline_name}/view?region={self.region}",
            description="The pipeline in the console",
        )
        CfnOutput(self, "BuildLogGroup", value=self._log_group.log_group_name, description="Logs of all builds of the pipeline")

    def _add_stage(self, wave: pipelines.Wave, settings: Settings) -> None:
        stage = Stage(self, settings.stage, env=Environment(account=settings.account, region=settings.region))
        check = self._checks.get(settings.stage)
        application = Application(stage, settings=settings, today=self._today, endpoint_check=check)
        before: list[pipelines.Step] = []
        after: list[pipelines.Step] = []
        if settings.approval:
            before = approval_steps(
                settings,
                source=self._source,
                assembly=self._pipeline.cloud_assembly_file_set,
                assembly_directory=stage.artifact_id,
                cache=self._cache,
            )
        if settings.termination_protection:
            after.append(protect_step(settings, application, source=self._source))
        if check:
            role = cast(iam.IRole, self._check_role)
            after.append(check_step(settings, application, source=self._source, role=role, check=check))
        wave.add_stage(stage, pre=before, post=after)

    def _make_check_role(self) -> iam.Role | None:
        """One role for the checks of all stages: each stage trusts it by name."""
        if not self._checks:
            return None
        role = iam.Role(
            self,
            "EndpointCheckRole",
            role_name=EndpointCheck.pipeline_role_name(self._plan.name),
            description="Checks the endpoint of each stage after its deployment, through a role of the stage",
            assumed_by=principal(iam.ServicePrincipal("codebuild.amazonaws.com")),
        )
        role.add_to_policy(check_role_statement(self._plan, self._checks))
        return role

    def _allow_connection(self) -> None:
        """The library allows the use of a connection under the service's old name only."""
        self._pipeline.pipeline.role.add_to_principal_policy(
            iam.PolicyStatement(actions=["codeconnections:UseConnection"], resources=[self._plan.source.connection_arn])
        )

    def _notify(self) -> None:
        """Mail for a failed run and for an approval that waits."""
        if not self._plan.source.notification_email:
            return
        topic = sns.Topic(self, "Notifications", display_name=bounded_name(self._plan.name, 100), enforce_ssl=True)
        email = subscriptions.EmailSubscription(self._plan.source.notification_email)
        topic.add_subscription(cast(sns.ITopicSubscription, email))
        self._pipeline.pipeline.notify_on(
            "NotificationRule",
            topic,
            events=[
                codepipeline.PipelineNotificationEvents.PIPELINE_EXECUTION_FAILED,
                codepipeline.PipelineNotificationEvents.MANUAL_APPROVAL_NEEDED,
            ],
            notification_rule_name=bounded_name(self._plan.name, 64),
        )


def _describe_roles(stack: Stack) -> None:
    """Say what the roles are for that the library makes without a description."""
    for construct in stack.node.find_all():
        if isinstance(construct, iam.CfnRole) and Stack.of(construct) is stack and not construct.description:
            names = construct.node.path.removeprefix(f"{stack.node.path}/").split("/")
            construct.description = f"{stack.stack_name}: {' '.join(names[:-1])}"[:1000]
