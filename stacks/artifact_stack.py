"""The pipeline's artifacts in a region that it delivers to from another."""

from aws_cdk import Environment, Stack
from constructs import Construct
from constructs.artifact_store import ArtifactStore
from constructs.bounded_name import bounded_name
from constructs.handler_logs import HandlerLogs


class ArtifactStack(Stack):
    """CodePipeline hands artifacts to a CloudFormation action through a bucket of the action's own region."""

    def __init__(self, scope: Construct, id: str, *, name: str, account: str, region: str) -> None:
        super().__init__(
            scope,
            id,
            stack_name=f"{name}-{region}",
            description=f"Artifacts of the pipeline {name} for the stages in {region}",
            env=Environment(account=account, region=region),
        )
        self.bucket = ArtifactStore(
            self,
            "Artifacts",
            description=f"Artifacts of the pipeline {name} in {region}",
            log_group=HandlerLogs(self, "HandlerLogs").log_group,
            # Known before deployment, because the pipeline in the other region names both.
            bucket_name=bounded_name(f"{name}-{account}-{region}".lower(), 63),
            alias=artifact_key_alias(name, region),
        ).bucket


def artifact_key_alias(name: str, region: str) -> str:
    """Of the key in a region of the pipeline `name`, without `alias/`."""
    return f"{name}-{region}"
