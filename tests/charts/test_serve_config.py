"""The builder and its table; what the values mean to Ray and vLLM is tested in tests/serve."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml

from charts.model_family import ModelFamily, model_families
from charts.serve_config import DECODE_RESOURCE, PREFILL_RESOURCE, application_name, build_serve_config, serve_config_yaml

DEFAULTS: dict[str, Any] = {
    "model_id": "qwen3.5-9b",
    "model_source": "Qwen/Qwen3.5-9B",
    "prefill_replicas": 1,
    "decode_replicas": 1,
    "tensor_parallel_size": 1,
    "max_model_len": 4096,
    "kv_backend": "LIBFABRIC",
    "accelerator_type": "L4",
    "gpu_memory_mib": 22888,
}


def config(**changes: Any) -> dict[str, Any]:
    return build_serve_config(**{**DEFAULTS, **changes})


def sides(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    [application] = config(**changes)["applications"]
    return application["args"]["prefill_config"], application["args"]["decode_config"]


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {leaf: content for key, item in value.items() for leaf, content in leaves(item, f"{path}.{key}").items()}
    return {path.lstrip("."): value}


def test_sides_differ_in_role_pin_and_replicas_only() -> None:
    prefill, decode = (leaves(side) for side in sides(prefill_replicas=2, decode_replicas=3))
    assert {
        path: (prefill.get(path), decode.get(path))
        for path in prefill.keys() | decode.keys()
        if prefill.get(path) != decode.get(path)
    } == {
        "engine_kwargs.kv_transfer_config.kv_role": ("kv_producer", "kv_consumer"),
        "placement_group_config.bundle_per_worker.pd_prefill": (0.001, None),
        "placement_group_config.bundle_per_worker.pd_decode": (None, 0.001),
        "deployment_config.num_replicas": (2, 3),
    }


def test_phases_ask_for_resources_that_no_node_has_both_of() -> None:
    prefill, decode = (side["placement_group_config"]["bundle_per_worker"] for side in sides())
    assert PREFILL_RESOURCE in prefill and DECODE_RESOURCE not in prefill
    assert DECODE_RESOURCE in decode and PREFILL_RESOURCE not in decode
    assert PREFILL_RESOURCE != DECODE_RESOURCE


@pytest.mark.parametrize(("backend", "provider"), [("LIBFABRIC", "efa"), ("UCX", None)])
def test_backend_on_both_sides_and_provider_with_libfabric(backend: str, provider: str | None) -> None:
    for side in sides(kv_backend=backend):
        assert side["engine_kwargs"]["kv_transfer_config"]["kv_connector_extra_config"] == {"backends": [backend]}
        assert side["runtime_env"]["env_vars"].get("FI_PROVIDER") == provider


def test_addressing_is_left_to_ray() -> None:
    text = serve_config_yaml(config())
    assert "engine_id" not in text
    assert "SIDE_CHANNEL" not in text


@pytest.mark.parametrize("backend", ["LIBFABRIC", "UCX"])
def test_hybrid_requirements(backend: str) -> None:
    for side in sides(kv_backend=backend):
        assert side["runtime_env"]["env_vars"]["VLLM_SSM_CONV_STATE_LAYOUT"] == "DS"
        engine = side["engine_kwargs"]
        assert engine["enable_prefix_caching"] is False
        assert engine["disable_hybrid_kv_cache_manager"] is False
        assert engine["language_model_only"] is True


@pytest.mark.parametrize(
    ("memory", "size", "small"),
    [(22888, 1, True), (24576, 1, True), (24577, 1, False), (12288, 2, True), (22888, 2, False), (81920, 1, False)],
)
def test_memory_settings_follow_the_memory_of_a_replica(memory: int, size: int, small: bool) -> None:
    for side in sides(gpu_memory_mib=memory, tensor_parallel_size=size):
        engine = side["engine_kwargs"]
        assert engine["tensor_parallel_size"] == size
        assert engine.get("enforce_eager") is (True if small else None)
        assert engine["max_num_seqs"] == (8 if small else 64)
        assert engine["gpu_memory_utilization"] == (0.92 if small else 0.9)


def test_dense_model_without_libfabric_needs_no_environment() -> None:
    for side in sides(model_source="Qwen/Qwen3-8B", kv_backend="UCX"):
        assert "runtime_env" not in side
        assert side["engine_kwargs"]["enable_prefix_caching"] is True
        assert "language_model_only" not in side["engine_kwargs"]


def test_accelerator_type_is_left_out_where_ray_has_no_name() -> None:
    assert all("accelerator_type" not in side for side in sides(accelerator_type=None))
    assert all(side["accelerator_type"] == "H100" for side in sides(accelerator_type="H100"))


@pytest.mark.parametrize(
    ("source", "family"),
    [
        ("Qwen/Qwen3.5-9B", "qwen3.5"),
        ("qwen/qwen3.5-35b-a3b-fp8", "qwen3.5"),
        ("s3://bucket/models/Qwen3.5-9B/", "qwen3.5"),
        ("/models/Qwen3.5-0.8B", "qwen3.5"),
        ("Qwen/Qwen3-8B", "qwen3"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "unknown"),
        ("Qwen/Qwen3-VL-8B-Instruct", "unknown"),
        ("Qwen/Qwen3-Embedding-8B", "unknown"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "unknown"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "unknown"),
        ("Qwen3.5-9B/weights", "unknown"),
        ("s3://bucket/weights", "unknown"),
        ("mistralai/Mistral-7B-v0.3", "unknown"),
    ],
)
def test_family_of(source: str, family: str) -> None:
    assert ModelFamily.of(model_source=source).name == family


def test_unknown_model_gets_what_a_hybrid_cannot_do_without() -> None:
    for side in sides(model_source="acme/some-model"):
        assert side["engine_kwargs"]["enable_prefix_caching"] is False
        assert side["runtime_env"]["env_vars"]["VLLM_SSM_CONV_STATE_LAYOUT"] == "DS"
        # Explicitly false is a ValueError on models that cannot use the manager; unset resolves to it where they can.
        assert "disable_hybrid_kv_cache_manager" not in side["engine_kwargs"]


def test_every_family_says_why_and_covers_every_memory_size() -> None:
    for family in model_families():
        assert all(requirement.without for requirement in family.requirements), family.name
        assert all(requirement.target in ("engine", "environment") for requirement in family.requirements), family.name
        limits = [row.up_to_mib for row in family.memory]
        assert limits[-1] is None, family.name
        assert limits[:-1] == sorted(limit for limit in limits if limit is not None), family.name


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("qwen3.5-9b", "qwen"),
        ("Qwen/Qwen3.5-9B", "qwen"),
        ("llama-3.1-8b", "llama"),
        ("org/7b-chat", "llm"),
        ("01-ai", "llm"),
        ("chat", "chat"),
    ],
)
def test_application_name(model_id: str, name: str) -> None:
    assert application_name(model_id=model_id) == name
    assert config(model_id=model_id)["applications"][0]["name"] == name


@pytest.mark.parametrize("name", ["prefill_replicas", "decode_replicas", "tensor_parallel_size", "max_model_len", "gpu_memory_mib"])
def test_counts_below_one_are_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=0: must be 1 or more"):
        config(**{name: 0})


def test_unknown_backend_is_named() -> None:
    # NIXL only warns about a name it does not know, and the start hangs.
    with pytest.raises(ValueError, match=re.escape("kv_backend=libfabric: must be one of LIBFABRIC, UCX")):
        config(kv_backend="libfabric")


def test_text_is_yaml_and_json_of_the_config_and_repeats() -> None:
    built = config(model_source="s3://bucket/né: #yes/")
    text = serve_config_yaml(built)
    assert json.loads(text) == built
    assert yaml.safe_load(text) == built
    assert text == serve_config_yaml(config(model_source="s3://bucket/né: #yes/"))
    assert all(len(line) < 120 for line in text.splitlines())


def test_configs_do_not_share_state() -> None:
    config()["applications"][0]["args"]["prefill_config"]["engine_kwargs"]["max_num_seqs"] = 1
    prefill, decode = sides()
    assert prefill["engine_kwargs"]["max_num_seqs"] == decode["engine_kwargs"]["max_num_seqs"] == 8
    prefill["runtime_env"]["env_vars"]["X"] = "1"
    assert "X" not in decode["runtime_env"]["env_vars"]


def test_imports_the_standard_library_only() -> None:
    code = (
        "import sys; before = set(sys.modules); import charts.serve_config; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before} - {'charts'}; "
        "print(sorted(new - sys.stdlib_module_names))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
