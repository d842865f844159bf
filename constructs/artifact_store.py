"""Where a pipeline keeps its artifacts in one region."""

from typing import cast

from aws_cdk import CfnResource, Duration, RemovalPolicy, Stack, aws_kms as kms, aws_logs as logs, aws_s3 as s3
from constructs import Construct
from constructs.acknowledge import acknowledge, acknowledge_managed_policy

_EMPTIER = "Custom::S3AutoDeleteObjectsCustomResourceProvider"


class ArtifactStore(Construct):
    """A bucket with a key of its own that accounts of other stages can be given access to.

    Objects expire, as a rerun needs the last weeks at most; bucket and objects go with the stack, and the key a week
    after it. Give `bucket_name` and `alias` where a stack of another region refers to the store.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        description: str,
        log_group: logs.ILogGroup,
        bucket_name: str | None = None,
        alias: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        key: kms.IKey = kms.Key(
            self,
            "Key",
            description=description,
            enable_key_rotation=True,
            pending_window=Duration.days(7),
            removal_policy=RemovalPolicy.DESTROY,
        )
        if alias:
            named = kms.Alias(self, "Alias", alias_name=f"alias/{alias}", target_key=key)
            named.apply_removal_policy(RemovalPolicy.DESTROY)
            key = named
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=bucket_name,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            # One data key for many objects: a pipeline run reads and writes hundreds.
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="Expire", expiration=Duration.days(30), abort_incomplete_multipart_upload_after=Duration.days(1)
                )
            ],
            removal_policy=RemovalPolicy.DESTROY,
            auto_delete_objects=True,
        )
        acknowledge(
            self.bucket, "AwsSolutions-S1", "Only the pipeline's roles reach it, and their use of its key is in CloudTrail."
        )
        _own_emptier(Stack.of(self), log_group)


def _own_emptier(stack: Stack, log_group: logs.ILogGroup) -> None:
    """Let the library's function that empties the bucket log to a group of the stack, so that none stays behind."""
    provider = stack.node.find_child(_EMPTIER)
    function = cast(CfnResource, provider.node.find_child("Handler"))
    function.add_deletion_override("DependsOn")  # its Role property implies it
    function.add_property_override("LoggingConfig", {"LogGroup": log_group.log_group_name})
    role = cast(CfnResource, provider.node.find_child("Role"))
    role.add_property_override("Description", "Empties the artifact bucket before it is deleted")
    acknowledge_managed_policy(
        role, "service-role/AWSLambdaBasicExecutionRole", "The library gives it to the function that empties the bucket."
    )
    acknowledge(function, "AwsSolutions-L1", "The library tests the function that empties the bucket on this runtime.")
