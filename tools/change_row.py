"""One resource of a change set, as a reviewer wants to see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

# Losing one of these loses data or the endpoint for long, or both.
COSTLY_TO_REPLACE = {
    "AWS::EKS::Cluster": "cluster",
    "AWS::EKS::Nodegroup": "node group",
    "AWS::EC2::VPC": "VPC",
    "AWS::EC2::Subnet": "subnet",
    "AWS::EC2::NatGateway": "NAT gateway",
    "AWS::EC2::EIP": "Elastic IP",
    "AWS::KMS::Key": "KMS key",
    "AWS::S3::Bucket": "bucket",
    "AWS::CodePipeline::Pipeline": "pipeline",
}
# What is charged by the hour or the GiB as soon as it exists.
CHARGED = {
    "AWS::EKS::Cluster",
    "AWS::EKS::Nodegroup",
    "AWS::EC2::NatGateway",
    "AWS::EC2::EIP",
    "AWS::EC2::FlowLog",
    "AWS::EC2::VPCEndpoint",
    "AWS::KMS::Key",
}


class Weight(IntEnum):
    """How early a row comes in the table."""

    COSTLY_LOSS = 0
    LOSS = 1
    CHARGED = 2
    OTHER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """`action` is one of add, import, modify, may replace, replace, remove, release, depends; in capitals where it is costly.

    `release` is a removal from the stack that keeps the resource, and `depends` an action that CloudFormation only knows
    once it has executed another change.
    """

    weight: Weight
    action: str
    type: str
    logical_id: str
    because: str

    @classmethod
    def of_change(cls, change: dict[str, Any]) -> ChangeRow:
        """From an entry of DescribeChangeSet's `Changes`."""
        resource = change["ResourceChange"]
        action = _action(resource)
        lost = action in ("remove", "replace", "may replace")
        costly = lost and resource["ResourceType"] in COSTLY_TO_REPLACE
        if costly:
            weight = Weight.COSTLY_LOSS
        elif lost:
            weight = Weight.LOSS
        else:
            weight = Weight.CHARGED if resource["ResourceType"] in CHARGED else Weight.OTHER
        return cls(
            weight=weight,
            action=action.upper() if costly else action,
            type=resource["ResourceType"],
            logical_id=resource["LogicalResourceId"],
            because=_because(resource),
        )

    @classmethod
    def of_new(cls, *, logical_id: str, type: str) -> ChangeRow:
        """From a resource of a template whose stack does not exist yet."""
        weight = Weight.CHARGED if type in CHARGED else Weight.OTHER
        return cls(weight=weight, action="add", type=type, logical_id=logical_id, because="")


def _action(resource: dict[str, Any]) -> str:
    action: str = resource["Action"].lower()
    kept = resource.get("PolicyAction") == "Retain"
    if action == "modify":
        replacements = {"True": "replace", "Conditional": "may replace"}
        return replacements.get(resource.get("Replacement", "False"), "modify")
    if action == "remove":
        return "release" if kept else "remove"
    return "depends" if action == "dynamic" else action


def _because(resource: dict[str, Any]) -> str:
    """The properties that change; those that recreate the resource first and marked."""
    causes: dict[str, bool] = {}
    for detail in resource.get("Details", []):
        target = detail.get("Target", {})
        name = target.get("Name") or target.get("Attribute")
        if name:
            causes[name] = causes.get(name, False) or target.get("RequiresRecreation", "Never") != "Never"
    return ", ".join(
        f"{name} (recreates)" if recreates else name for name, recreates in sorted(causes.items(), key=_recreating_first)
    )


def _recreating_first(cause: tuple[str, bool]) -> tuple[bool, str]:
    name, recreates = cause
    return not recreates, name
