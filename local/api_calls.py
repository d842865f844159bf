"""Calls of JSON APIs inside the emulator: parameters after botocore's description of the API, errors, routing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import ParamValidationError
from botocore.validate import validate_parameters
from ministack import app
from ministack.core import router
from ministack.services import iam


class ServiceError(ValueError):
    """A service's refusal: an error to an API caller, the reason of the failed event in CloudFormation's hands."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{message} (Error Code: {code})")
        self.code = code


def parameters(service: str, operation: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """CloudFormation properties as the parameters of a call: the API's spelling and types, and nothing it lacks.

    Raises:
        ServiceError: for a property that the API has no member for, or a value that it does not take.
    """
    shape = _model(service).operation_model(operation).input_shape
    given = _converted(dict(properties), shape, "")
    try:
        validate_parameters(given, shape)
    except ParamValidationError as error:
        raise ServiceError("ValidationException", str(error)) from error
    return given


def assumable(role_arn: str, service: str) -> bool:
    """Whether the role exists and its trust policy lets the service assume it."""
    role = iam._roles.get(role_arn.rsplit("/", 1)[-1])
    return role is not None and f'"{service}"' in json.dumps(role["AssumeRolePolicyDocument"]).replace('\\"', '"')


def serve(name: str, operations: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]], *, target: str | None = None) -> None:
    """Let the emulator answer calls that are signed for the service `name`.

    `target` is the prefix of the X-Amz-Target header; without one the operation is the path, as in /listTargets.
    """

    async def answer(method: str, path: str, headers: dict, body: bytes, query: dict) -> tuple:
        asked = headers.get("x-amz-target", "").rpartition(".")[2] or path[1:2].upper() + path[2:]
        content = {"Content-Type": "application/x-amz-json-1.1"}
        if asked not in operations:
            return 501, content, json.dumps({"__type": "UnknownOperationException", "message": f"no {asked} here"}).encode()
        try:
            return 200, content, json.dumps(operations[asked](json.loads(body or b"{}")), default=str).encode()
        except ServiceError as error:
            return 400, content, json.dumps({"__type": error.code, "message": str(error)}).encode()

    router.SERVICE_PATTERNS[name] = {"target_prefixes": [target]} if target else {}
    app.SERVICE_HANDLERS[name] = answer


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _converted(value: Any, shape: Any, path: str) -> Any:
    if shape.type_name == "structure":
        members = {name.lower(): name for name in shape.members}
        unknown = [key for key in value if key.lower() not in members]
        if unknown:
            raise ServiceError("ValidationException", f"{path or '/'} has no {', '.join(unknown)}")
        return {
            members[key.lower()]: _converted(item, shape.members[members[key.lower()]], f"{path}/{key}")
            for key, item in value.items()
            if item is not None
        }
    if shape.type_name == "list":
        return [_converted(item, shape.member, path) for item in value]
    if shape.type_name == "map":
        return {key: _converted(item, shape.value, path) for key, item in value.items()}
    convert = {
        "integer": int,
        "boolean": lambda text: str(text).lower() == "true",
        "string": lambda text: str(text).lower() if isinstance(text, bool) else str(text),
    }
    return convert.get(shape.type_name, lambda item: item)(value)
