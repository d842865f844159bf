"""DescribeChangeSet answers in the shape of the API reference: an instance type changed by hand to a new node group, a
cluster renamed, a policy edited. botocore's Stubber checks them against the service's model wherever they are used."""

from datetime import UTC, datetime
from typing import Any

STACK = "ray-llm-multinode-eks"
STACK_ID = f"arn:aws:cloudformation:sa-east-1:123456789012:stack/{STACK}/0f1e2d3c"
CHANGE_SET_ID = "arn:aws:cloudformation:sa-east-1:123456789012:changeSet/review/4b5a6978"


def change(
    action: str, type: str, name: str, *details: tuple[str, str], replacement: str | None = None, **more: Any
) -> dict[str, Any]:
    """`details` are pairs of a property and its RequiresRecreation."""
    resource: dict[str, Any] = {"Action": action, "LogicalResourceId": name, "ResourceType": type, "Scope": [], **more}
    if replacement:
        resource["Replacement"] = replacement
    resource["Details"] = [
        {
            "Target": {"Attribute": "Properties", "Name": property, "RequiresRecreation": recreation},
            "Evaluation": "Static",
            "ChangeSource": "DirectModification",
        }
        for property, recreation in details
    ]
    return {"Type": "Resource", "ResourceChange": resource}


CLUSTER = change(
    "Modify",
    "AWS::EKS::Cluster",
    "ControlPlaneCluster",
    ("Name", "Always"),
    ("Version", "Never"),
    replacement="True",
    PhysicalResourceId="ray-llm-multinode",
)
NODE_GROUP = change("Modify", "AWS::EKS::Nodegroup", "GpuNodes", ("LaunchTemplate", "Conditionally"), replacement="Conditional")
NAT = change("Remove", "AWS::EC2::NatGateway", "Nat2", PolicyAction="Delete")
NEW_NAT = change("Add", "AWS::EC2::NatGateway", "Nat3")
KEPT_KEY = change("Remove", "AWS::KMS::Key", "OldKey", PolicyAction="Retain")
POLICY = change("Modify", "AWS::IAM::Policy", "Policy", ("PolicyDocument", "Never"), replacement="False")
ROLE = change("Modify", "AWS::IAM::Role", "Role", ("RoleName", "Always"), replacement="True")
CHART = change("Modify", "Custom::AWSCDK-EKS-HelmChart", "Operator", ("Version", "Never"), replacement="False")
DYNAMIC = change("Dynamic", "AWS::SSM::Parameter", "Parameter")


def answer(*changes: dict[str, Any], status: str = "CREATE_COMPLETE", **more: Any) -> dict[str, Any]:
    return {
        "ChangeSetName": "review",
        "ChangeSetId": CHANGE_SET_ID,
        "StackId": STACK_ID,
        "StackName": STACK,
        "CreationTime": datetime(2026, 12, 2, tzinfo=UTC),
        "ExecutionStatus": "AVAILABLE",
        "Status": status,
        "NotificationARNs": [],
        "RollbackConfiguration": {},
        "Capabilities": ["CAPABILITY_NAMED_IAM"],
        "Changes": list(changes),
        **more,
    }
