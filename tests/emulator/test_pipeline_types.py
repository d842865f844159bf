"""What the types of a pipeline refuse, called the way ministack's engine calls them; no server runs."""

import copy
import json
from itertools import count

import pytest
from ministack.services import s3
from ministack.services.cloudformation import provisioners

from local.code_build import PROJECT
from local.code_pipeline import PIPELINE
from local.instance_offerings import InstanceOfferings
from local.notification_rules import NOTIFICATION_RULE
from local.resource_rules import ResourceRules
from local.resource_schemas import ResourceSchemas
from tests.emulator.test_resource_types import create, delete

REGION = "us-east-1"  # ministack's region outside a request
ids = count(1)


@pytest.fixture(scope="module", autouse=True)
def types(tmp_path_factory):
    saved = dict(provisioners._RESOURCE_HANDLERS)
    offerings = InstanceOfferings(file=tmp_path_factory.mktemp("offerings") / "offerings.json")
    ResourceRules(schemas=ResourceSchemas(region=REGION), offerings=offerings).install()
    yield
    provisioners._RESOURCE_HANDLERS.clear()
    provisioners._RESOURCE_HANDLERS.update(saved)


def role(service: str) -> str:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": f"{service}.amazonaws.com"}}
    return create("IAM::Role", AssumeRolePolicyDocument={"Version": "2012-10-17", "Statement": [statement]})[1]["Arn"]


@pytest.fixture
def bucket() -> str:
    return create("S3::Bucket", BucketName=f"artifacts-{next(ids)}")[0]


@pytest.fixture
def properties(bucket) -> dict:
    """A pipeline of a source and two builds, the second of which uses what the first makes."""

    def action(name: str, category: str, provider: str, order: int = 1, **more) -> dict:
        kind = {"Category": category, "Owner": "AWS", "Provider": provider, "Version": "1"}
        return {"Name": name, "ActionTypeId": kind, "RunOrder": order, **more}

    source = action("repository", "Source", "CodeStarSourceConnection", OutputArtifacts=[{"Name": "code"}])
    first = action("first", "Build", "CodeBuild", InputArtifacts=[{"Name": "code"}], OutputArtifacts=[{"Name": "made"}])
    second = action("second", "Build", "CodeBuild", 2, InputArtifacts=[{"Name": "made"}], Configuration={"Text": "#{space.value}"})
    return {
        "Name": f"pipeline-{next(ids)}",
        "PipelineType": "V2",
        "ExecutionMode": "QUEUED",
        "RoleArn": role("codepipeline"),
        "ArtifactStore": {"Type": "S3", "Location": bucket},
        "Stages": [
            {"Name": "Source", "Actions": [source]},
            {"Name": "Build", "Actions": [{**first, "Namespace": "space"}, second]},
        ],
    }


def changed(properties: dict, path: str, value) -> dict:
    """A copy with another value at a path such as `Stages/1/Actions/0/Name`; None takes away."""
    copied = copy.deepcopy(properties)
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place = copied
    for part in way:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return copied


@pytest.mark.parametrize("added", [PIPELINE, PROJECT, NOTIFICATION_RULE], ids=lambda added: added.name)
def test_unknown_property_is_refused(added) -> None:
    with pytest.raises(ValueError, match="Properties validation failed"):
        create(added.name.removeprefix("AWS::"), Nonsense="x")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("RoleArn", "arn:aws:iam::000000000000:role/nobody", "not authorized to perform AssumeRole"),
        ("PipelineType", "V1", "no execution mode QUEUED"),
        ("Stages/1", None, "is too short"),
        ("Stages/1/Name", "Source", "same name"),
        ("Stages/1/Actions/0/Name", "second", "two of one name"),
        ("Stages/0/Actions/0/ActionTypeId/Category", "Build", "consist of source actions"),
        ("Stages/1/Actions/0/ActionTypeId/Category", "Source", "consist of source actions"),
        ("Stages/1/Actions/0/OutputArtifacts", None, "Bundle made in action second is not declared"),
        ("Stages/1/Actions/1/RunOrder", 1, "Bundle made in action second is not declared"),
        ("Stages/1/Actions/0/Namespace", None, "refers to space, a namespace of no preceding action"),
        ("Stages/1/Actions/0/Region", "eu-west-1", "no artifact store"),
        ("ArtifactStore/Location", "no-such-bucket", "not located in the us-east-1"),
        ("ExecutionMode", "SOMETIMES", "validation failed"),
    ],
)
def test_pipeline_refuses(properties, path: str, value, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create("CodePipeline::Pipeline", **changed(properties, path, value))


def test_pipeline_is_made_updated_and_deleted(properties) -> None:
    name, attributes = create("CodePipeline::Pipeline", **properties)
    assert (name, attributes["Version"]) == (properties["Name"], "1")
    with pytest.raises(ValueError, match="already exists"):
        create("CodePipeline::Pipeline", **properties)
    new = changed(properties, "ExecutionMode", "SUPERSEDED")
    updated = provisioners._update_resource("AWS::CodePipeline::Pipeline", name, properties, new, "stack", "It")
    assert updated == (name, {"Version": "2"})
    delete("CodePipeline::Pipeline", name)
    create("CodePipeline::Pipeline", **properties)


def project(bucket: str) -> dict:
    return {
        "Source": {"Type": "CODEPIPELINE", "BuildSpec": "{}"},
        "Artifacts": {"Type": "CODEPIPELINE"},
        "Environment": {"Type": "LINUX_CONTAINER", "Image": "an-image", "ComputeType": "BUILD_GENERAL1_SMALL"},
        "ServiceRole": role("codebuild"),
        "Cache": {"Type": "S3", "Location": f"{bucket}/cache"},
    }


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("ServiceRole", "arn:aws:iam::000000000000:role/nobody", "not authorized to perform: sts:AssumeRole"),
        ("Artifacts/Type", "NO_ARTIFACTS", "both of type CODEPIPELINE, or neither"),
        ("Cache/Location", "no-such-bucket/cache", "valid S3 bucket"),
    ],
)
def test_project_refuses(bucket, path: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create("CodeBuild::Project", **changed(project(bucket), path, value))


def test_service_may_not_use_a_role_of_another_service(bucket) -> None:
    with pytest.raises(ValueError, match="not authorized"):
        create("CodeBuild::Project", **{**project(bucket), "ServiceRole": role("codepipeline")})


def test_notification_rule_refuses(properties) -> None:
    pipeline = create("CodePipeline::Pipeline", **properties)[0]
    account = properties["RoleArn"].split(":")[4]
    rule = {
        "Name": f"rule-{next(ids)}",
        "DetailType": "FULL",
        "Resource": f"arn:aws:codepipeline:{REGION}:{account}:{pipeline}",
        "EventTypeIds": ["codepipeline-pipeline-pipeline-execution-failed"],
        "Targets": [{"TargetType": "SNS", "TargetAddress": create("SNS::Topic")[0]}],
    }
    for change, message in (
        ({"Resource": rule["Resource"] + "x"}, "does not exist"),
        ({"EventTypeIds": ["codepipeline-pipeline-pipeline-execution-exploded"]}, "no event type"),
    ):
        with pytest.raises(ValueError, match=message):
            create("CodeStarNotifications::NotificationRule", **{**rule, **change})
    arn = create("CodeStarNotifications::NotificationRule", **rule)[0]
    with pytest.raises(ValueError, match="already exists"):
        create("CodeStarNotifications::NotificationRule", **rule)
    delete("CodeStarNotifications::NotificationRule", arn)


def test_bucket_with_objects_cannot_go(bucket) -> None:
    s3._buckets[bucket]["objects"]["key"] = {}
    with pytest.raises(ValueError, match="BucketNotEmpty"):
        delete("S3::Bucket", bucket)
    s3._buckets[bucket]["objects"].clear()
    delete("S3::Bucket", bucket)


@pytest.mark.parametrize(
    ("kind", "properties", "message"),
    [
        ("S3::BucketPolicy", {"Bucket": "no-such-bucket", "PolicyDocument": {"Statement": []}}, "NoSuchBucket"),
        ("SNS::TopicPolicy", {"Topics": ["arn:aws:sns:us-east-1:1:no"], "PolicyDocument": {"Statement": []}}, "does not exist"),
        (
            "SNS::Subscription",
            {"TopicArn": "arn:aws:sns:us-east-1:1:no", "Protocol": "email", "Endpoint": "a@b.c"},
            "does not exist",
        ),
        ("S3::Bucket", {"LifecycleConfiguration": {"Rules": [{"Status": "Enabled", "Prefix": "x"}]}}, "does not know Prefix"),
    ],
)
def test_refuses_what_does_not_exist(kind: str, properties: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(kind, **json.loads(json.dumps(properties)))
