"""The execution policies of docs/delivery.md, against what CloudFormation's own schemas say that each resource type needs.

The schemas' lists are long: they hold the permissions of every property. What no property of these templates needs is
named below, so that a new resource type, or a property of a new kind, makes a permission missing here and not in an account.
"""

import json
from fnmatch import fnmatchcase
from functools import cache

import pytest
from aws_cdk.cx_api import CloudAssembly

from local.resource_schemas import ROOT
from tests.conftest import STACKS
from tests.delivery import THREE, DeliveryTemplate

POLICIES = {"stage": STACKS, "pipeline": ("delivery", "delivery-eu-central-1")}
SCHEMAS = next(ROOT.glob(".venv/lib/python3*/site-packages/cfnlint/data/schemas"))
# IAM allows 6,144 characters, without white space, in a managed policy.
LIMIT = 6144
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
# These types have no such list.
UNLISTED = {"AWS::CodeBuild::Project": "codebuild:CreateProject"}


def policy(name: str) -> dict:
    return json.loads((ROOT / "docs" / f"execution-policy-{name}.json").read_text())


def allowed(name: str) -> list[str]:
    return [action for statement in policy(name)["Statement"] for action in statement["Action"]]


@cache
def assembly() -> CloudAssembly:
    return DeliveryTemplate(THREE, NOTIFICATION_EMAIL="me@example.com").assembly


@cache
def needed(type_name: str) -> set[str]:
    if type_name in UNLISTED:
        return {UNLISTED[type_name]}
    index = json.loads((SCHEMAS / "providers" / "us-east-1.json").read_text())
    schema = json.loads((SCHEMAS / "resources" / f"{index[type_name]}.json").read_text())
    found = {permission for handler in schema["handlers"].values() for permission in handler.get("permissions", [])}
    assert found, f"{type_name}: its schema lists no permissions"
    return found


def matches(action: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def types(stacks: tuple[str, ...]) -> set[str]:
    return {
        resource["Type"]
        for artifact in assembly().stacks_recursively
        if artifact.stack_name in [f"ray-llm-multinode-{stack}" for stack in stacks]
        for resource in artifact.template["Resources"].values()
        if not resource["Type"].startswith("Custom::")
    }


@pytest.mark.parametrize("name", POLICIES)
def test_every_resource_type_has_its_permissions(name: str) -> None:
    unused = [*ELSEWHERE[name], *(pattern for patterns in UNUSED.values() for pattern in patterns)]
    missing = {
        f"{type_name} {action}"
        for type_name in types(POLICIES[name])
        for action in needed(type_name)
        if not matches(action, allowed(name)) and not matches(action, unused)
    }
    assert missing == set()


@pytest.mark.parametrize("name", POLICIES)
def test_policy_allows_nothing_of_other_services(name: str) -> None:
    services = {action.split(":")[0] for type_name in types(POLICIES[name]) for action in needed(type_name)}
    # The pipeline's connection may carry the new or the old name of the service; assets come from the bootstrap bucket.
    assert {action.split(":")[0] for action in allowed(name)} <= services | {"codeconnections", "s3"}


@pytest.mark.parametrize("name", POLICIES)
def test_policy_fits_iam_and_is_narrow_where_it_matters(name: str) -> None:
    document = policy(name)
    assert len(json.dumps(document, separators=(",", ":"))) <= LIMIT
    for statement in document["Statement"]:
        assert "*" not in statement["Action"]
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        if any(action.startswith("iam:") for action in statement["Action"]):
            assert not set(resources) & {"*", "arn:aws:iam::*:role/*"}
        if "iam:PassRole" in statement["Action"]:
            assert "iam:PassedToService" in statement["Condition"]["StringEquals"]


@pytest.mark.parametrize("name", POLICIES)
def test_roles_of_the_templates_have_names_that_the_policy_knows(name: str) -> None:
    """CloudFormation starts a role's name with the stack's; two have names of their own."""
    (roles,) = [statement["Resource"] for statement in policy(name)["Statement"] if statement["Sid"] == "Roles"]
    patterns = [arn.split("/")[1] for arn in ([roles] if isinstance(roles, str) else roles)]
    for artifact in assembly().stacks_recursively:
        if artifact.stack_name in [f"ray-llm-multinode-{stack}" for stack in POLICIES[name]]:
            for resource in artifact.template["Resources"].values():
                if resource["Type"] == "AWS::IAM::Role":
                    assert matches(resource["Properties"].get("RoleName", f"{artifact.stack_name}-x"), patterns)


def test_state_machines_have_names_that_the_policy_knows() -> None:
    """CloudFormation starts a state machine's name with its logical id."""
    (arns,) = [statement["Resource"] for statement in policy("stage")["Statement"] if statement["Sid"] == "VerificationPolls"]
    names = [
        logical_id
        for artifact in assembly().stacks_recursively
        for logical_id, resource in artifact.template["Resources"].items()
        if resource["Type"] == "AWS::StepFunctions::StateMachine"
    ]
    assert names
    assert all(matches(name, [arn.rsplit(":", 1)[1] for arn in arns]) for name in names)
