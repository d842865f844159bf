"""Where a service's answer differs from what a template asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Unknown(str):
    """A value that could not be computed from the services' answers: equal to none of them."""


def differences(expected: Any, observed: Any, path: str = "") -> Iterator[str]:
    """Where the service's answer lacks what the template asks for; the answer may hold more."""
    if isinstance(expected, Unknown):
        yield f"{path} cannot be computed here: {expected}"
        return
    if path == "/Tags":
        expected, observed = _tag_map(expected), _tag_map(observed)
    if isinstance(expected, dict):
        if not isinstance(observed, dict):
            yield f"{path} is {observed!r}, not {expected!r}"
            return
        lower = {key.lower(): value for key, value in observed.items()}
        for key, value in expected.items():
            if key.lower() not in lower:
                if value not in ([], {}, None):
                    yield f"{path}/{key} is missing"
            else:
                yield from differences(value, lower[key.lower()], f"{path}/{key}")
    elif isinstance(expected, list):
        more = path in ("/SecurityGroupIngress", "/SecurityGroupEgress")  # rules that are resources of their own
        if not isinstance(observed, list) or len(observed) < len(expected) or (len(observed) > len(expected) and not more):
            yield f"{path} is {observed!r}, not {expected!r}"
            return
        for item in expected:
            if all(any(differences(item, candidate)) for candidate in observed):
                yield f"{path} lacks {item!r}"
    elif str(expected).lower() != str(observed).lower():
        yield f"{path} is {observed!r}, not {expected!r}"


def _tag_map(tags: Any) -> dict[str, str]:
    """Tags in any service's spelling, without those that CloudFormation adds."""
    if isinstance(tags, list):
        tags = {tag.get("Key", tag.get("TagKey")): tag.get("Value", tag.get("TagValue")) for tag in tags}
    return {key: value for key, value in (tags or {}).items() if not key.startswith("aws:")}


def named(answer: Any, name: str) -> Iterator[Any]:
    """Scalars called `name`, the outermost first."""
    if not isinstance(answer, dict):
        return
    for key, value in answer.items():
        if key.lower() == name and not isinstance(value, (dict, list)):
            yield value
    for value in answer.values():
        yield from named(value, name)
