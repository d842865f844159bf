"""Readers, as in service_readers.py, for what a pipeline is made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from local.account import Account
    from local.service_readers import Reader


def _pipeline(account: Account, name: str, _: dict[str, Any]) -> Any:
    client = account.client("codepipeline")
    answer = client.get_pipeline(name=name)
    found, arn = answer["pipeline"], answer["metadata"]["pipelineArn"]
    stores = [{"Region": region, "ArtifactStore": store} for region, store in found.get("artifactStores", {}).items()]
    tags = {tag["key"]: tag["value"] for tag in client.list_tags_for_resource(resourceArn=arn)["tags"]}
    return {**found, "artifactStores": stores, "tags": tags}


def _project(account: Account, name: str, _: dict[str, Any]) -> Any:
    found = account.client("codebuild").batch_get_projects(names=[name])["projects"][0]
    return {**found, "Id": name, "tags": {tag["key"]: tag["value"] for tag in found["tags"]}}


def _notification_rule(account: Account, arn: str, _: dict[str, Any]) -> Any:
    """A rule whose messages would not arrive is not as the template has it."""
    found = account.client("codestar-notifications").describe_notification_rule(Arn=arn)
    lost = [target["TargetAddress"] for target in found["Targets"] if target["TargetStatus"] != "ACTIVE"]
    if lost:
        raise LookupError(f"unreachable: {lost}")
    return {**found, "EventTypeIds": [event["EventTypeId"] for event in found["EventTypes"]]}


def _bucket(account: Account, name: str, _: dict[str, Any]) -> Any:
    s3 = account.client("s3")
    if name not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        return None
    encryption = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
    rules = s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"]
    return {
        "Arn": f"arn:aws:s3:::{name}",
        "BucketName": name,
        "BucketEncryption": {
            "ServerSideEncryptionConfiguration": [
                {**rule, "ServerSideEncryptionByDefault": rule["ApplyServerSideEncryptionByDefault"]} for rule in encryption
            ]
        },
        "LifecycleConfiguration": {
            "Rules": [{**rule, "ExpirationInDays": rule.get("Expiration", {}).get("Days")} for rule in rules]
        },
        "PublicAccessBlockConfiguration": s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"],
        "Tags": s3.get_bucket_tagging(Bucket=name)["TagSet"],
    }


def _bucket_policy(account: Account, _: str, expected: dict[str, Any]) -> Any:
    policy = account.client("s3").get_bucket_policy(Bucket=expected["Bucket"])["Policy"]
    return {"Bucket": expected["Bucket"], "PolicyDocument": json.loads(policy)}


def _topic(account: Account, arn: str, _: dict[str, Any]) -> Any:
    sns = account.client("sns")
    found = sns.get_topic_attributes(TopicArn=arn)["Attributes"]
    return {**found, "Tags": sns.list_tags_for_resource(ResourceArn=arn)["Tags"]}


def _topic_policy(account: Account, _: str, expected: dict[str, Any]) -> Any:
    """The policy must be the same on every topic that the template names."""
    sns = account.client("sns")
    policies = [json.loads(sns.get_topic_attributes(TopicArn=topic)["Attributes"]["Policy"]) for topic in expected["Topics"]]
    return {**expected, "PolicyDocument": policies[0] if all(other == policies[0] for other in policies) else None}


def _subscription(account: Account, arn: str, _: dict[str, Any]) -> Any:
    found = account.client("sns").list_subscriptions()["Subscriptions"]
    return next((subscription for subscription in found if subscription["SubscriptionArn"] == arn), None)


def _alias(account: Account, name: str, expected: dict[str, Any]) -> Any:
    """The target may be given as an ARN, and KMS shows the key's id."""
    found = [alias for alias in account.client("kms").list_aliases()["Aliases"] if alias["AliasName"] == name]
    if not found:
        return None
    key = account.client("kms").describe_key(KeyId=found[0]["TargetKeyId"])["KeyMetadata"]
    target = key["Arn"] if str(expected.get("TargetKeyId")).startswith("arn:") else key["KeyId"]
    return {**found[0], "Arn": found[0]["AliasArn"], "TargetKeyId": target}


def _emptier(account: Account, physical_id: str, expected: dict[str, Any]) -> Any:
    """It made nothing: it empties a bucket when the stack is deleted."""
    return expected if physical_id else None


DELIVERY_READERS: Mapping[str, Reader] = {
    "AWS::CodeBuild::Project": _project,
    "AWS::CodePipeline::Pipeline": _pipeline,
    "AWS::CodeStarNotifications::NotificationRule": _notification_rule,
    "AWS::KMS::Alias": _alias,
    "AWS::S3::Bucket": _bucket,
    "AWS::S3::BucketPolicy": _bucket_policy,
    "AWS::SNS::Subscription": _subscription,
    "AWS::SNS::Topic": _topic,
    "AWS::SNS::TopicPolicy": _topic_policy,
    "Custom::S3AutoDeleteObjects": _emptier,
}
