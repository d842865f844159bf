"""The pipeline and the buckets it needs in other regions."""

from datetime import date

from aws_cdk import Tags
from constructs import Construct

from delivery_plan import DeliveryPlan
from stacks.application import tags
from stacks.artifact_stack import ArtifactStack
from stacks.delivery_stack import DeliveryStack


class Delivery:
    """The DeliveryStack under `scope`, with one ArtifactStack for each further region that has a stage."""

    def __init__(self, scope: Construct, *, plan: DeliveryPlan, today: date) -> None:
        regions = dict.fromkeys(stage.region for stage in plan.stages if stage.region != plan.source.region)
        self.artifacts = {
            region: ArtifactStack(scope, f"Artifacts-{region}", name=plan.name, account=plan.source.account, region=region)
            for region in regions
        }
        self.stack = DeliveryStack(
            scope,
            "DeliveryStack",
            plan=plan,
            replicas={region: stack.bucket for region, stack in self.artifacts.items()},
            today=today,
        )
        for stack in self.artifacts.values():
            self.stack.add_stack_dependency(stack, "The pipeline names the bucket of each region that it delivers to.")
        for stack in (self.stack, *self.artifacts.values()):
            for key, value in tags(stage="delivery", cluster=plan.source.cluster_name).items():
                Tags.of(stack).add(key, value)
