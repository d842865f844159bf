"""What an IAM policy allows, as far as the execution policies need it: Allow statements with the operators they have."""

from fnmatch import fnmatchcase
from typing import Any


def allows(document: dict[str, Any], action: str, arn: str = "*", **context: str | list[str]) -> bool:
    """Whether a statement allows `action` on `arn`. `context` has __ for the : and ___ for the / of condition keys."""
    known = {key.replace("___", "/").replace("__", ":"): listed(value) for key, value in context.items()}
    return any(
        matches(action, listed(statement["Action"]), fold=True)
        and matches(arn, listed(statement["Resource"]))
        and all(_holds(operator, operands, known) for operator, operands in statement.get("Condition", {}).items())
        for statement in document["Statement"]
    )


def matches(text: str, patterns: list[str], *, fold: bool = False) -> bool:
    """Whether one of the patterns, with * and ?, matches; actions have no case, ARNs do."""
    return any(fnmatchcase(text.lower() if fold else text, pattern.lower() if fold else pattern) for pattern in patterns)


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _holds(operator: str, operands: dict[str, Any], context: dict[str, list[str]]) -> bool:
    for key, wanted in operands.items():
        values = context.get(key, [])
        if operator == "Null":
            holds = bool(values) != (wanted == "true")
        elif operator == "ForAllValues:StringLike":
            holds = all(matches(value, listed(wanted)) for value in values)
        elif operator in ("ArnLike", "StringLike"):
            holds = any(matches(value, listed(wanted)) for value in values)
        elif operator == "StringEquals":
            holds = any(value in listed(wanted) for value in values)
        else:
            raise ValueError(f"the policies have a condition with {operator}, which nothing here evaluates")
        if not holds:
            return False
    return True
