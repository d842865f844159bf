"""Asks the real libraries about a serveConfigV2, and closes the holes through which they let mistakes pass."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from ray.llm._internal.serve.serving_patterns.prefill_decode.builder import PDServingArgs
from ray.serve.llm import LLMConfig
from ray.serve.schema import ServeDeploySchema
from vllm import envs
from vllm.config.kv_transfer import KVTransferConfig
from vllm.engine.arg_utils import AsyncEngineArgs

_ROLES = {"prefill_config": "kv_producer", "decode_config": "kv_consumer"}


def problems(config: Mapping[str, Any]) -> list[str]:
    """What is wrong with the config, one sentence each; empty if nothing is.

    Refused by the libraries themselves: values that ServeDeploySchema, PDServingArgs, KVTransferConfig and the types
    of vLLM's engine arguments do not take. Accepted by them without a word, and found here: keys that Serve's schema
    does not know, roles that do not fit their side, VLLM_ variables that vLLM does not read.
    """
    try:
        schema = ServeDeploySchema.model_validate(copy.deepcopy(dict(config)))
    except ValidationError as error:
        return _sentences("serveConfigV2", error)
    known = schema.model_dump(mode="json", exclude_unset=True)
    found = [f"{path}: Ray Serve ignores this key" for path in _ignored(config, known)]
    for application in config["applications"]:
        found += _application(application["args"])
    return found


def _application(args: Mapping[str, Any]) -> list[str]:
    try:
        serving = PDServingArgs.model_validate(copy.deepcopy(dict(args)))
    except ValidationError as error:
        return _sentences("args", error)
    return [
        f"{side}.{sentence}" for side, role in _ROLES.items() for sentence in _side(getattr(serving, side), args[side], role=role)
    ]


def _side(llm_config: LLMConfig, given: Mapping[str, Any], *, role: str) -> Iterator[str]:
    try:
        llm_config.get_engine_config()
    except ValueError as error:
        yield f"engine_kwargs: {error}"
    fields = {field.name: field.type for field in dataclasses.fields(AsyncEngineArgs)}
    for name, value in given["engine_kwargs"].items():
        if name in fields and name != "kv_transfer_config":
            try:
                TypeAdapter(fields[name], config=_strictness(fields[name])).validate_python(value)
            except ValidationError as error:
                yield from _sentences(f"engine_kwargs.{name}", error)
    try:
        transfer = KVTransferConfig(**given["engine_kwargs"]["kv_transfer_config"])
    except (ValidationError, ValueError) as error:
        yield f"engine_kwargs.kv_transfer_config: {error}"
    else:
        if transfer.kv_role != role:
            yield f"engine_kwargs.kv_transfer_config.kv_role: {transfer.kv_role}, and this side is the {role}"
        if not transfer.kv_connector_extra_config.get("backends"):
            yield "engine_kwargs.kv_transfer_config.kv_connector_extra_config.backends: none, so NIXL takes UCX"
    for name in (given.get("runtime_env") or {}).get("env_vars", {}):
        if name.startswith("VLLM_") and name not in envs.environment_variables:
            yield f"runtime_env.env_vars.{name}: vLLM reads no such variable"


def _strictness(kind: Any) -> ConfigDict | None:
    """Strict, so that "8" is no number; a model or dataclass brings its own rules."""
    owns_rules = isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind))
    return None if owns_rules else ConfigDict(strict=True)


def _ignored(given: Any, known: Any, path: str = "") -> Iterator[str]:
    """Paths of the keys that are given and not known. `args` belongs to the application and is not Serve's to know."""
    if isinstance(given, Mapping) and isinstance(known, Mapping):
        for key, value in given.items():
            here = f"{path}.{key}".lstrip(".")
            if key not in known:
                yield here
            elif key != "args":
                yield from _ignored(value, known[key], here)
    elif isinstance(given, list) and isinstance(known, list):
        for position, (item, counterpart) in enumerate(zip(given, known, strict=True)):
            yield from _ignored(item, counterpart, f"{path}[{position}]")


def _sentences(where: str, error: ValidationError) -> list[str]:
    return [".".join([where, *(str(part) for part in item["loc"])]) + f": {item['msg']}" for item in error.errors()]
