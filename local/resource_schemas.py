"""CloudFormation's published resource schemas, as they ship with cfn-lint."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator, ValidationError, validators

ROOT = Path(__file__).resolve().parent.parent


class ResourceSchemas:
    """Checks properties the way CloudFormation does before it calls a service.

    Guarantees: an unknown or missing property, a wrong type, enum, pattern or length raises ValueError with
    CloudFormation's wording; a type without a schema raises too, so nothing passes unchecked.
    """

    def __init__(self, *, region: str, folder: Path | None = None) -> None:
        """`folder` is cfn-lint's data/schemas folder; by default the one in the project's .venv."""
        if folder is None:
            override = os.environ.get("LOCAL_CFN_SCHEMAS")
            found = [Path(override)] if override else [*ROOT.glob(".venv/lib/python3*/site-packages/cfnlint/data/schemas")]
            if not found:
                raise FileNotFoundError("cfn-lint is not installed in .venv: run `make setup` first")
            folder = found[0]
        self._folder = folder
        self._index: dict[str, str] = json.loads((folder / "providers" / f"{region}.json").read_text())

    @cache  # noqa: B019 - one instance lives as long as the emulator
    def schema(self, resource_type: str) -> dict[str, Any]:
        """The schema of one type in this region; LookupError when the region has no such type."""
        if resource_type not in self._index:
            raise LookupError(f"no CloudFormation schema for {resource_type} in this region")
        text = (self._folder / "resources" / f"{self._index[resource_type]}.json").read_text()
        # The schemas' regular expressions know Unicode classes; Python's re has \\w and \\s for them.
        return json.loads(re.sub(r"\\\\p\{\w+\}", r"\\\\w\\\\s", text))

    def names(self, resource_type: str, group: str) -> frozenset[str]:
        """Top-level property names of a schema list such as `createOnlyProperties`."""
        paths = [path.split("/") for path in self.schema(resource_type).get(group) or ()]
        return frozenset(path[2] for path in paths if len(path) == 3)

    def check(self, resource_type: str, logical_id: str, properties: dict[str, Any]) -> None:
        """Raise ValueError that lists every violation."""
        cleaned = {key: _without_system_tags(value) for key, value in properties.items() if value is not None}
        problems = [
            f"{resource_type}: {name} is read-only"
            for name in self.names(resource_type, "readOnlyProperties") - self.names(resource_type, "createOnlyProperties")
            if name in cleaned
        ]
        for error in self._validator(resource_type).iter_errors(cleaned):
            path = "/".join(str(part) for part in error.absolute_path)
            problems.append(f"#/{path}: {error.message[:300]}")
        if problems:
            raise ValueError(f"Properties validation failed for resource {logical_id} with message: " + "; ".join(sorted(problems)))

    @cache  # noqa: B019
    def _validator(self, resource_type: str) -> Draft7Validator:
        schema = dict(self.schema(resource_type))
        schema.pop("$schema", None)
        return _CloudFormationValidator(schema)


def _without_system_tags(value: Any) -> Any:
    """CloudFormation adds its aws: tags after validation, the emulator's engine before it."""
    if isinstance(value, list):
        return [item for item in value if not (isinstance(item, dict) and str(item.get("Key", "")).startswith("aws:"))]
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if not str(key).startswith("aws:")}
    return value


def _pattern(validator, pattern, instance, schema):
    if not isinstance(instance, (dict, list)) and not re.search(pattern, str(instance)):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _exactly_one(validator, names, instance, schema):
    """cfn-lint's own keyword: exactly one of these properties."""
    if isinstance(instance, dict) and sum(name in instance for name in names) != 1:
        yield ValidationError(f"exactly one of {', '.join(names)} is required")


def _types():
    """CloudFormation converts between strings and the scalar types."""
    checker = Draft7Validator.TYPE_CHECKER
    return checker.redefine_many(
        {
            "string": lambda _, value: isinstance(value, (str, int, float, bool)),
            "boolean": lambda _, value: isinstance(value, bool) or str(value).lower() in ("true", "false"),
            "integer": lambda _, value: not isinstance(value, bool) and re.fullmatch(r"-?\d+", str(value)) is not None,
            "number": lambda _, value: not isinstance(value, bool) and re.fullmatch(r"-?\d+(\.\d+)?", str(value)) is not None,
        }
    )


_CloudFormationValidator = validators.extend(
    Draft7Validator, validators={"pattern": _pattern, "requiredXor": _exactly_one}, type_checker=_types()
)
