"""The emitted config against the real Ray Serve and vLLM, and the check's own eyesight."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from charts.model_family import model_families
from charts.serve_config import KV_BACKENDS, build_serve_config
from local.serve.config_check import problems
from local.serve.ray_service import RayService

SOURCES = {
    "qwen3.5": "Qwen/Qwen3.5-9B",
    "qwen3": "Qwen/Qwen3-8B",
    "qwen2.5": "Qwen/Qwen2.5-7B-Instruct",
    "llama-3": "meta-llama/Llama-3.1-8B-Instruct",
    "unknown": "s3://bucket/weights",
}
REPLICAS = [(1, 1), (2, 1), (1, 2), (3, 5)]
SIZES = [1, 2, 4, 8]


def config(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "model_id": "a-model",
        "model_source": SOURCES["qwen3.5"],
        "prefill_replicas": 1,
        "decode_replicas": 1,
        "tensor_parallel_size": 1,
        "max_model_len": 4096,
        "kv_backend": "LIBFABRIC",
        "accelerator_type": "L4",
        "gpu_memory_mib": 22888,
    }
    return build_serve_config(**given | changes)


def test_every_family_has_a_source_here() -> None:
    assert list(SOURCES) == [family.name for family in model_families()]


@pytest.mark.parametrize("family", SOURCES)
@pytest.mark.parametrize("backend", KV_BACKENDS)
@pytest.mark.parametrize("memory", [22888, 81920])
def test_libraries_take_every_combination(family: str, backend: str, memory: int) -> None:
    found = {
        (prefill, decode, size): wrong
        for (prefill, decode), size in itertools.product(REPLICAS, SIZES)
        if (
            wrong := problems(
                config(
                    model_source=SOURCES[family],
                    kv_backend=backend,
                    gpu_memory_mib=memory,
                    prefill_replicas=prefill,
                    decode_replicas=decode,
                    tensor_parallel_size=size,
                )
            )
        )
    }
    assert found == {}


def test_ray_knows_every_gpu_of_the_catalog() -> None:
    from catalog.efa_instance_type import efa_instance_types

    names = {row.ray_accelerator_type for row in efa_instance_types().values()}
    assert {name: wrong for name in names if (wrong := problems(config(accelerator_type=name)))} == {}
    assert names - {None}, "no type has a name: nothing was tested"


def test_the_template_holds_what_was_checked(service_of: Callable[..., RayService]) -> None:
    assert problems(service_of().serve_config) == []


APPLICATION = ("applications", 0)
PREFILL = (*APPLICATION, "args", "prefill_config")
TRANSFER = (*PREFILL, "engine_kwargs", "kv_transfer_config")


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        # Serve's schema takes these without a word.
        (("proxy_locatoin",), "EveryNode", "proxy_locatoin: Ray Serve ignores this key"),
        (("http_options",), {"prot": 8000}, "http_options.prot: Ray Serve ignores this key"),
        ((*APPLICATION, "route_perfix"), "/", "applications[0].route_perfix: Ray Serve ignores this key"),
        # Ray Serve LLM and vLLM refuse these.
        ((*APPLICATION, "args", "prefil_config"), {}, "args.prefil_config: Extra inputs are not permitted"),
        ((*PREFILL, "acelerator_type"), "L4", "args.prefill_config: "),
        ((*PREFILL, "accelerator_type"), "L5", "args.prefill_config: "),
        ((*PREFILL, "deployment_config", "num_replica"), 1, "args.prefill_config: "),
        ((*PREFILL, "placement_group_config", "stratgy"), "PACK", "args.prefill_config: "),
        ((*PREFILL, "engine_kwargs", "max_model_length"), 1, "prefill_config.engine_kwargs: Unknown engine argument"),
        ((*PREFILL, "engine_kwargs", "max_num_seqs"), "8", "prefill_config.engine_kwargs.max_num_seqs"),
        ((*PREFILL, "engine_kwargs", "enforce_eager"), 2.5, "prefill_config.engine_kwargs.enforce_eager"),
        ((*TRANSFER, "kv_rol"), "kv_producer", "prefill_config.engine_kwargs.kv_transfer_config: "),
        ((*TRANSFER, "kv_role"), "kv_prefill", "prefill_config.engine_kwargs.kv_transfer_config: "),
        ((*TRANSFER, "kv_load_failure_policy"), "ignore", "prefill_config.engine_kwargs.kv_transfer_config: "),
        # vLLM takes these and does something else than meant.
        ((*TRANSFER, "kv_role"), "kv_consumer", "prefill_config.engine_kwargs.kv_transfer_config.kv_role: "),
        ((*TRANSFER, "kv_connector_extra_config"), {}, "prefill_config.engine_kwargs.kv_transfer_config.kv_connector_extra_config"),
        ((*PREFILL, "runtime_env", "env_vars", "VLLM_SSM_CONV_LAYOUT"), "DS", "prefill_config.runtime_env.env_vars.VLLM_SSM"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_mistake_is_found(path: tuple[str | int, ...], value: Any, sentence: str) -> None:
    changed: Any = copy.deepcopy(config())
    target = changed
    for part in path[:-1]:
        target = target.setdefault(part, {}) if isinstance(target, dict) else target[part]
    target[path[-1]] = value
    [found] = problems(changed)
    assert found.startswith(sentence), found


def test_different_models_on_the_two_sides_are_refused() -> None:
    changed = config()
    changed["applications"][0]["args"]["decode_config"]["model_loading_config"]["model_id"] = "another"
    [found] = problems(changed)
    assert "model id mismatch" in found


def test_the_text_is_what_kuberay_sends(service_of: Callable[..., RayService]) -> None:
    """KubeRay turns the text into JSON and PUTs it; nothing in it needs YAML to be read."""
    config = dict(service_of().serve_config)
    assert json.loads(json.dumps(config)) == config
