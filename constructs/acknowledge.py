"""Accept one finding of a security rule for one construct, with the reason."""

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct

_MANAGED_POLICY = "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{}]"


def acknowledge(scope: IConstruct, rule: str, reason: str) -> None:
    """`rule` with the finding in brackets, so that a new finding of the same rule is still reported."""
    Validations.of(scope).acknowledge(Acknowledgment(id=f"AwsSolutions::{rule}", reason=reason))


def acknowledge_managed_policy(scope: IConstruct, policy: str, reason: str) -> None:
    """`policy` by its name with path, such as `service-role/AWSLambdaVPCAccessExecutionRole`."""
    acknowledge(scope, _MANAGED_POLICY.format(policy), reason)
