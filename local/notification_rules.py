"""AWS CodeStar Notifications, which ministack lacks: rules that are kept and described, with the state of their targets."""

from __future__ import annotations

import json
import secrets
from typing import Any

from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region
from ministack.services import sns

from local import code_pipeline
from local.api_calls import ServiceError, parameters, serve
from local.resource_types import Created, Properties, ResourceType

_PRINCIPAL = "codestar-notifications.amazonaws.com"
# https://docs.aws.amazon.com/dtconsole/latest/userguide/concepts.html#events-ref-pipeline
_EVENTS = {
    "action-execution": ("succeeded", "failed", "canceled", "started"),
    "stage-execution": ("started", "succeeded", "resumed", "canceled", "failed"),
    "pipeline-execution": ("failed", "canceled", "started", "resumed", "succeeded", "superseded"),
    "manual-approval": ("failed", "needed", "succeeded"),
}
_KNOWN = {f"codepipeline-pipeline-{kind}-{state}" for kind, states in _EVENTS.items() for state in states}
_rules = AccountRegionScopedDict()


def install() -> None:
    """Answer the read operations."""
    operations = {
        "DescribeNotificationRule": lambda asked: _described(asked["Arn"]),
        "ListNotificationRules": lambda asked: {
            "NotificationRules": [{"Arn": arn, "Id": arn.rpartition("/")[2]} for arn in _rules]
        },
    }
    serve("codestar-notifications", operations)


def _described(arn: str) -> dict[str, Any]:
    if arn not in _rules:
        raise ServiceError("ResourceNotFoundException", f"The notification rule {arn} does not exist")
    rule = dict(_rules[arn])
    targets = [{**target, "TargetStatus": _status(target["TargetAddress"])} for target in rule.pop("Targets")]
    return {**rule, "Arn": arn, "EventTypes": [{"EventTypeId": name} for name in rule.pop("EventTypeIds")], "Targets": targets}


def _status(topic: str) -> str:
    """A topic whose policy does not let the service publish is found unreachable once a message is due."""
    policy = json.loads(sns._topics[topic]["attributes"].get("Policy", "{}")) if topic in sns._topics else {}
    publishing = [
        statement
        for statement in policy.get("Statement", [])
        if statement["Effect"] == "Allow" and _PRINCIPAL in json.dumps(statement["Principal"])
    ]
    return "ACTIVE" if publishing else "UNREACHABLE"


def _create(logical_id: str, properties: Properties, stack: str) -> Created:
    if any(rule["Name"] == properties["Name"] for rule in _rules.values()):
        raise ServiceError("ResourceAlreadyExistsException", f"A notification rule named {properties['Name']} already exists")
    arn = f"arn:aws:codestar-notifications:{get_region()}:{get_account_id()}:notificationrule/{secrets.token_hex(20)}"
    _put(arn, properties)
    return arn, {"Arn": arn}


def _put(arn: str, properties: Properties) -> None:
    given = parameters("codestar-notifications", "CreateNotificationRule", properties)
    if not code_pipeline.exists(given["Resource"]):
        raise ServiceError("ValidationException", f"The resource {given['Resource']} does not exist")
    if unknown := set(given["EventTypeIds"]) - _KNOWN:
        raise ServiceError("ValidationException", f"Pipelines have no event type {', '.join(sorted(unknown))}")
    _rules[arn] = {"Status": "ENABLED", **given}


NOTIFICATION_RULE = ResourceType(
    name="AWS::CodeStarNotifications::NotificationRule",
    create=_create,
    update=lambda arn, old, new: _put(arn, new),
    delete=lambda arn, properties: _rules.pop(arn, None) and None,
    attributes=lambda arn, properties: {"Arn": arn},
    tags="map",
)
