"""What the pipeline runs besides deployments. Every step is a script of the repository (.ci/), so that a change of a step
is an ordinary commit and not a change of the pipeline that fails before the pipeline can apply it."""

from collections.abc import Mapping

from aws_cdk import Aws, CfnOutput, Duration, Stack, aws_codebuild as codebuild, aws_iam as iam, pipelines
from constructs import IConstruct

from catalog.aws_partition import console_url
from delivery_plan import DeliveryPlan
from settings import Settings
from stacks.application import Application
from stacks.endpoint_check import EndpointCheck

RUNTIMES = {"runtime-versions": {"python": "3.12", "nodejs": "24"}}
"""The install phase of every build, the pipeline's own ones included."""
# An approval shows at most 1,000 characters; tools/review.py keeps its summary shorter.
_SUMMARY = "REVIEW_SUMMARY"
_CACHED = ["/root/.cache/pip/**/*", "/root/.npm/**/*"]


def synth_step(plan: DeliveryPlan, *, source: pipelines.IFileSetProducer, cache: codebuild.Cache) -> pipelines.CodeBuildStep:
    """Lint, unit, template and static tests, then synth with the library's validation: minutes, and no AWS calls."""
    return pipelines.CodeBuildStep(
        "Synth",
        input=source,
        env=plan.source.environment,
        commands=[".ci/pipeline-synth"],
        primary_output_directory="cdk.out",
        partial_build_spec=_caching(),
        cache=cache,
        timeout=Duration.minutes(30),
    )


def test_step(*, source: pipelines.IFileSetProducer, cache: codebuild.Cache) -> pipelines.CodeBuildStep:
    """The slow tests of `make test`: beside the synth they would delay a repair of the pipeline itself."""
    return pipelines.CodeBuildStep(
        "Test",
        input=source,
        commands=[".ci/pipeline-test"],
        partial_build_spec=_caching(),
        cache=cache,
        # Ray's simulated nodes take some 8 GiB.
        build_environment=codebuild.BuildEnvironment(compute_type=codebuild.ComputeType.LARGE),
        timeout=Duration.minutes(60),
    )


def approval_steps(
    stage: Settings,
    *,
    source: pipelines.IFileSetProducer,
    assembly: pipelines.IFileSetProducer,
    assembly_directory: str,
    cache: codebuild.Cache,
) -> list[pipelines.Step]:
    """Prepare the change sets of a stage without executing them, then wait for a person who has their summary."""
    review = pipelines.CodeBuildStep(
        f"Review-{stage.stage}",
        input=source,
        additional_inputs={"assembly": assembly},
        commands=[
            f".ci/pipeline-review assembly/{assembly_directory} review.txt",
            f'export {_SUMMARY}="$(cat review.txt)"',
        ],
        partial_build_spec=_caching(),
        cache=cache,
        role_policy_statements=[_assume(bootstrap_role(stage, "deploy-role"), bootstrap_role(stage, "file-publishing-role"))],
        timeout=Duration.minutes(30),
    )
    approval = pipelines.ManualApprovalStep(
        f"Approve-{stage.stage}",
        comment=review.exported_variable(_SUMMARY),
        review_url=f"{console_url(stage.region)}/cloudformation/home?region={stage.region}"
        f"#/stacks?filteringText={stage.cluster_name}-",
    )
    approval.add_step_dependency(review)
    return [review, approval]


def check_step(
    stage: Settings, application: Application, *, source: pipelines.IFileSetProducer, role: iam.IRole, check: EndpointCheck
) -> pipelines.CodeBuildStep:
    """Invoke the endpoint with the commands that a person copies from the stack outputs.

    What another commit may change comes from the outputs: the environment of the build is by then that of the newest commit,
    as its run has updated the pipeline and waits.
    ChatCommand is not among them: CodePipeline puts outputs into a JSON text, where its quotes do not survive.
    """

    return pipelines.CodeBuildStep(
        f"Check-{stage.stage}",
        input=source,
        commands=[".ci/check-endpoint"],
        env={
            "CHECK_ROLE": _role(stage, check.stage_role_name),
            "CLUSTER_REGION": stage.region,
        },
        env_from_cfn_outputs={
            "CLUSTER": _output(application.eks, "ClusterName"),
            "MODEL_ID": _output(application.ray_serve, "ModelId"),
            "PORT_FORWARD": _output(application.ray_serve, "PortForwardCommand"),
            "LIST_MODELS": _output(application.ray_serve, "ListModelsCommand"),
        },
        role=role,
        timeout=Duration.minutes(60),
    )


def protect_step(stage: Settings, application: Application, *, source: pipelines.IFileSetProducer) -> pipelines.CodeBuildStep:
    """Switch on termination protection, which a CloudFormation action of CodePipeline does not do by itself."""
    return pipelines.CodeBuildStep(
        f"Protect-{stage.stage}",
        input=source,
        commands=[f".ci/protect-stacks {' '.join(stack.stack_name for stack in application.stacks)}"],
        env={"DEPLOY_ROLE": bootstrap_role(stage, "deploy-role"), "STACKS_REGION": stage.region},
        role_policy_statements=[_assume(bootstrap_role(stage, "deploy-role"))],
        timeout=Duration.minutes(10),
    )


def check_role_statement(plan: DeliveryPlan, checks: Mapping[str, EndpointCheck]) -> iam.PolicyStatement:
    """Assume the check's role of each stage, given by stage name."""
    return _assume(*(_role(stage, checks[stage.stage].stage_role_name) for stage in plan.stages if stage.stage in checks))


def _caching() -> codebuild.BuildSpec:
    return codebuild.BuildSpec.from_object({"version": "0.2", "cache": {"paths": _CACHED}})


def _output(stack: Stack, name: str) -> CfnOutput:
    output: IConstruct = stack.node.find_child(name)
    assert isinstance(output, CfnOutput)
    return output


def _assume(*role_arns: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=["sts:AssumeRole"], resources=list(role_arns))


def _role(stage: Settings, name: str) -> str:
    return f"arn:{Aws.PARTITION}:iam::{stage.account}:role/{name}"


def bootstrap_role(stage: Settings, role: str) -> str:
    """A role of `cdk bootstrap` in the stage's account, with the default qualifier."""
    return _role(stage, f"cdk-hnb659fds-{role}-{stage.account}-{stage.region}")
