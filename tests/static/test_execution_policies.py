"""The execution policies of docs/delivery.md, against what CloudFormation's own schemas say that each resource type needs.

The schemas' lists are long: they hold the permissions of every property. What no property of these templates needs is
named below, so that a new resource type, or a property of a new kind, makes a permission missing here and not in an account.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from aws_cdk.cx_api import CloudAssembly

from local.resource_schemas import ROOT
from tests.conftest import STACKS
from tests.delivery import THREE, DeliveryTemplate
from tests.static.physical_names import arns
from tests.static.policy_evaluation import allows, listed, matches
from tools.execution_policies import LIMIT, length, policy

POLICIES = {"stage": STACKS, "pipeline": ("delivery", "delivery-eu-central-1")}
DEFAULT, MIXED_CASE, LONGEST = "ray-llm-multinode", "Ray-" + 35 * "m" + "X", 100 * "m"
CFNLINT = next(ROOT.glob(".venv/lib/python3*/site-packages/cfnlint/data"))
SCHEMAS = CFNLINT / "schemas"
UNUSED = {
    "addresses of another account or of one's own, private NAT": [
        "ec2:AcceptAddressTransfer",
        "ec2:AssignPrivateNatGatewayAddress",
        "ec2:AssociateNatGatewayAddress",
        "ec2:DisassociateNatGatewayAddress",
        "ec2:UnassignPrivateNatGatewayAddress",
    ],
    "IPv6, tenancy, encryption controls, VPN, endpoints of other kinds": [
        "ec2:AssociateSubnetCidrBlock",
        "ec2:AttachVpnGateway",
        "ec2:CreateVpcEncryptionControl",
        "ec2:DetachVpnGateway",
        "ec2:DisassociateSubnetCidrBlock",
        "ec2:ModifyVpcTenancy",
        "s3tables:*",
        "vpc-lattice:*",
        "vpce:*",
    ],
    "EKS Auto Mode, certificate rotation": ["iam:*InstanceProfile", "eks:ActivateCertificateAuthority"],
    "other principals, boundaries, lists": [
        "iam:*Group*",
        "iam:*RolePermissionsBoundary",
        "iam:*UserPolicy",
        "iam:ListRoles",
        "states:ListStateMachines",
    ],
    "code signing, concurrency, capacity, versions, file systems": [
        "elasticfilesystem:*",
        "lambda:*CapacityProvider",
        "lambda:*Concurrency",
        "lambda:AssociateRuntimeAlias",
        "lambda:DeleteFunctionCodeSigningConfig",
        "lambda:GetCodeSigningConfig",
        "lambda:ListFunctions",
        "lambda:PublishVersion",
        "lambda:Put*",
        "s3files:*",
    ],
    "log group policies, keys, bearer tokens": [
        "logs:*KmsKey",
        "logs:*ResourcePolicy",
        "logs:Delete*Policy",
        "logs:Put*Policy",
        "logs:PutBearerTokenAuthentication",
        "logs:PutLogGroupDeletionProtection",
        "firehose:*",
    ],
    "use of a key, which its own policy allows; disabling it": [
        "kms:Decrypt",
        "kms:Encrypt",
        "kms:GenerateDataKey",
        "kms:DisableKey",
        "kms:EnableKey",
    ],
    "bucket features that are not used": [
        "s3:*Metadata*",
        "s3:*ObjectLock*",
        "s3:DeleteBucket?*",
        "s3:DeleteObject",
        "s3:GetObject*",
        "s3:ListAllMyBuckets",
        "s3:PutAccelerateConfiguration",
        "s3:PutAnalyticsConfiguration",
        "s3:PutIntelligentTieringConfiguration",
        "s3:PutInventoryConfiguration",
        "s3:PutMetricsConfiguration",
        "s3:PutObjectAcl",
        "s3:PutReplicationConfiguration",
        "s3:REST.PUT.OBJECT",
    ],
    "data protection of topics": ["sns:PutDataProtectionPolicy"],
    "read by EKS through its own role": ["autoscaling:DescribeTags"],
}
ELSEWHERE = {
    "stage": ["s3:*BucketPolicy"],  # flow logs go to a log group
    "pipeline": ["ec2:Describe*", "lambda:GetLayerVersion", "logs:CreateLogDelivery"],  # no VPC, layer or flow log
}
KEY = "arn:aws:kms:us-east-1:111111111111:key/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
DANGEROUS = (
    "kms:CreateGrant",
    "kms:DisableKeyRotation",
    "kms:PutKeyPolicy",
    "kms:ScheduleKeyDeletion",
    "kms:TagResource",
    "kms:UntagResource",
    "kms:UpdateKeyDescription",
)
# These types have no such list.
UNLISTED = {"AWS::CodeBuild::Project": "codebuild:CreateProject"}


def document(name: str, cluster: str = DEFAULT) -> dict[str, Any]:
    return policy(name, cluster=cluster, region="us-east-1")


def allowed(name: str) -> list[str]:
    return [action for statement in document(name)["Statement"] for action in statement["Action"]]


@cache
def assembly(cluster: str = DEFAULT) -> CloudAssembly:
    stages = {name: {**stage, "cluster_name": cluster} for name, stage in THREE.items()}
    # A topic's display name has at most 100 characters.
    mail = {"NOTIFICATION_EMAIL": "me@example.com"} if len(cluster) <= 40 else {}
    return DeliveryTemplate(stages, CLUSTER_NAME=cluster, **mail).assembly


def stacks(name: str, cluster: str = DEFAULT) -> Iterator[tuple[str, dict[str, Any]]]:
    for artifact in assembly(cluster).stacks_recursively:
        if artifact.stack_name in [f"{cluster}-{stack}" for stack in POLICIES[name]]:
            yield artifact.stack_name, artifact.template


@cache
def needed(type_name: str) -> set[str]:
    if type_name in UNLISTED:
        return {UNLISTED[type_name]}
    index = json.loads((SCHEMAS / "providers" / "us-east-1.json").read_text())
    schema = json.loads((SCHEMAS / "resources" / f"{index[type_name]}.json").read_text())
    found = {permission for handler in schema["handlers"].values() for permission in handler.get("permissions", [])}
    assert found, f"{type_name}: its schema lists no permissions"
    return found


def types(name: str) -> set[str]:
    return {
        resource["Type"]
        for _, template in stacks(name)
        for resource in template["Resources"].values()
        if not resource["Type"].startswith("Custom::")
    }


@pytest.mark.parametrize("name", POLICIES)
def test_every_resource_type_has_its_permissions(name: str) -> None:
    unused = [*ELSEWHERE[name], *(pattern for patterns in UNUSED.values() for pattern in patterns)]
    missing = {
        f"{type_name} {action}"
        for type_name in types(name)
        for action in needed(type_name)
        if not matches(action, [*allowed(name), *unused], fold=True)
    }
    assert missing == set()


@pytest.mark.parametrize("name", POLICIES)
def test_policy_allows_nothing_of_other_services(name: str) -> None:
    services = {action.split(":")[0] for type_name in types(name) for action in needed(type_name)}
    # The pipeline's connection may carry the new or the old name of the service; assets and the version of the bootstrap
    # come from its bucket and its parameter.
    assert {action.split(":")[0] for action in allowed(name)} <= services | {"codeconnections", "s3", "ssm"}


@pytest.mark.parametrize("name", POLICIES)
def test_policy_fits_iam_and_is_narrow_where_it_matters(name: str) -> None:
    assert length(document(name)) <= LIMIT
    for statement in document(name)["Statement"]:
        assert "*" not in statement["Action"]
        resources = listed(statement["Resource"])
        if any(action.startswith("iam:") for action in statement["Action"]):
            assert not set(resources) & {"*", "arn:aws:iam::*:role/*"}
        if "iam:PassRole" in statement["Action"]:
            assert "iam:PassedToService" in statement["Condition"]["StringEquals"]


@pytest.mark.parametrize("cluster", [DEFAULT, MIXED_CASE, LONGEST])
@pytest.mark.parametrize("name", POLICIES)
def test_policy_knows_the_names_of_its_stacks_and_no_other_clusters(name: str, cluster: str) -> None:
    made, other = document(name, cluster), document(name, "other")
    checked = set()
    for stack, template in stacks(name, cluster):
        for logical_id, arn, actions in arns(stack, template, cluster=cluster):
            assert [action for action in actions if not allows(made, action, arn)] == [], f"{logical_id} {arn}"
            if cluster.lower()[:23] in arn.lower():
                assert [action for action in actions if allows(other, action, arn)] == [], f"{logical_id} {arn}"
                checked.add(template["Resources"][logical_id]["Type"])
    assert {"AWS::IAM::Role", "AWS::Lambda::Function", "AWS::Logs::LogGroup"} <= checked


def test_pipeline_leaves_the_stages_alone() -> None:
    for stack, template in stacks("stage"):
        for logical_id, arn, actions in arns(stack, template, cluster=DEFAULT):
            assert [action for action in actions if allows(document("pipeline"), action, arn)] == [], f"{logical_id} {arn}"


@pytest.mark.parametrize("name", POLICIES)
def test_actions_without_resources_are_allowed_on_all(name: str) -> None:
    """IAM ignores such an action in a statement that names resources."""
    services = json.loads((CFNLINT / "AdditionalSpecs" / "Policies.json").read_text())
    for statement in document(name)["Statement"]:
        for action in statement["Action"]:
            service, operation = action.split(":")
            if "*" not in operation and statement["Resource"] != "*":
                assert services[service]["Actions"][operation.lower()].get("Resources"), f"{statement['Sid']} {action}"


@pytest.mark.parametrize("name", POLICIES)
def test_parameters_that_the_templates_read_may_be_read(name: str) -> None:
    """CloudFormation looks the version of the bootstrap up, in every stack."""
    for _, template in stacks(name):
        (parameter,) = [value for value in template["Parameters"].values() if value["Type"].startswith("AWS::SSM::")]
        arn = f"arn:aws:ssm:us-east-1:111111111111:parameter{parameter['Default']}"
        assert allows(document(name), "ssm:GetParameters", arn)
        assert not allows(document(name), "ssm:PutParameter", arn)


@pytest.mark.parametrize("cluster", [DEFAULT, LONGEST])
@pytest.mark.parametrize("name", POLICIES)
def test_keys_of_the_templates_have_the_tag_that_the_policy_wants(name: str, cluster: str) -> None:
    keys = [
        resource["Properties"]
        for _, template in stacks(name, cluster)
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::KMS::Key"
    ]
    assert keys
    for key in keys:
        (tag,) = [tag["Value"] for tag in key["Tags"] if tag["Key"] == "cluster"]
        for action in ("PutKeyPolicy", "ScheduleKeyDeletion", "CreateGrant", "DisableKeyRotation", "UntagResource"):
            assert allows(document(name, cluster), f"kms:{action}", KEY, aws__ResourceTag___cluster=tag)


@pytest.mark.parametrize(
    "shown",
    [
        {"aws__ResourceTag___cluster": "other"},
        {"aws__ResourceTag___cluster": "other", "kms__ResourceAliases": ["alias/ray-llm-multinode-delivery-us-east-1"]},
        {"aws__ResourceTag___cluster": "RAY-LLM-MULTINODE"},
        {"kms__ResourceAliases": ["alias/payroll"]},
        {"kms__ResourceAliases": ["alias/ray-llm-multinode-delivery-x", "alias/payroll"]},
    ],
)
@pytest.mark.parametrize("name", POLICIES)
def test_keys_of_others_are_only_read(name: str, shown: dict[str, Any]) -> None:
    assert [action for action in DANGEROUS if allows(document(name), action, KEY, **shown)] == []
    assert allows(document(name), "kms:DescribeKey", KEY, **shown)


@pytest.mark.parametrize("name", POLICIES)
def test_key_is_made_before_its_tags_are_seen(name: str) -> None:
    """KMS takes up to five minutes, and asks whether its maker may put a policy before it makes a key."""
    for action in ("CreateKey", "TagResource", "PutKeyPolicy", "EnableKeyRotation", "DescribeKey", "CreateGrant"):
        assert allows(document(name), f"kms:{action}", KEY)
    for action in ("ScheduleKeyDeletion", "UntagResource", "UpdateKeyDescription", "DisableKeyRotation"):
        assert not allows(document(name), f"kms:{action}", KEY)


@pytest.mark.parametrize("name", POLICIES)
def test_grants_are_not_bound_to_services_that_eks_does_not_count_among(name: str) -> None:
    """EKS documents that its CreateCluster does not support kms:GrantIsForAWSResource."""
    assert "kms:GrantIsForAWSResource" not in json.dumps(document(name))


def test_notification_rules_are_those_of_the_pipeline() -> None:
    for pipeline, expected in (("ray-llm-multinode-delivery", True), ("other-delivery", False)):
        arn = f"arn:aws:codepipeline:us-east-1:444444444444:{pipeline}"
        for action in ("Create", "Update", "Describe", "Delete"):
            action = f"codestar-notifications:{action}NotificationRule"
            context: dict[str, Any] = {"codestar-notifications__NotificationsForResource": arn}
            assert allows(document("pipeline"), action, **context) == expected
