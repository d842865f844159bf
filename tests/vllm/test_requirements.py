"""Each required setting of the hybrid family, taken out: the engine fails as model_families.toml says."""

import os
from pathlib import Path
from typing import Any

import pytest

from charts.model_family import ModelFamily
from local.real_engine.machine_config import environment as machine_environment, machine_of
from local.real_engine.tiny_model import NAMES, Kind
from tests.vllm.running_vllm import MACHINE, prompts, run_single_engine, serve_config

_DEPRECATED = "kv_role='kv_both' with NixlConnector is deprecated"


def start(
    models: dict[Kind, Path], *, side: str = "prefill_config", environment: dict[str, str] | None = None, **changes: Any
) -> tuple[Any, str]:
    """One hybrid engine with the connector, as the config sets it up but for `changes` and `environment`."""
    config = serve_config(kind="hybrid", model=models["hybrid"])["applications"][0]["args"][side]
    engine = {**config["engine_kwargs"], "model": str(models["hybrid"]), **changes}
    variables = config["runtime_env"]["env_vars"] if environment is None else environment
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    return run_single_engine(
        engine=engine, environment={**inherited, **machine_environment(MACHINE), **variables}, questions=prompts(count=1, tokens=12)
    )


def without(name: str) -> str:
    family = ModelFamily.of(model_source=NAMES["hybrid"])
    return next(requirement.without for requirement in family.requirements if requirement.name == name)


def test_with_all_of_them_it_starts(models: dict[Kind, Path]) -> None:
    answers, output = start(models)
    assert answers is not None, output[-3000:]
    assert _DEPRECATED not in output


def test_without_the_conv_state_layout(models: dict[Kind, Path]) -> None:
    answers, output = start(models, environment={})
    assert answers is None
    assert "AssertionError: 3-read Mamba conv transfer requires DS conv state layout" in output
    assert "AssertionError '3-read Mamba conv transfer requires DS conv state layout'" in without("VLLM_SSM_CONV_STATE_LAYOUT")


def test_without_the_hybrid_kv_cache_manager(models: dict[Kind, Path]) -> None:
    answers, output = start(models, disable_hybrid_kv_cache_manager=True)
    assert answers is None
    assert "ValueError" in output
    assert "ValueError at start" in without("disable_hybrid_kv_cache_manager")


def test_role_that_the_sample_uses_is_deprecated(models: dict[Kind, Path]) -> None:
    config = serve_config(kind="hybrid", model=models["hybrid"])["applications"][0]["args"]["prefill_config"]
    transfer = {**config["engine_kwargs"]["kv_transfer_config"], "kv_role": "kv_both"}
    answers, output = start(models, kv_transfer_config=transfer)
    assert answers is not None, output[-3000:]
    assert _DEPRECATED in output


def test_an_unknown_machine_is_refused_by_name() -> None:
    assert [machine_of({}), machine_of({"ENGINE_MACHINE": "gpu"})] == ["cpu", "gpu"]
    with pytest.raises(ValueError, match=r"^ENGINE_MACHINE=tpu: allowed is one of cpu, gpu$"):
        machine_of({"ENGINE_MACHINE": "tpu"})
