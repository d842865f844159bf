"""The Ray Serve application, `serveConfigV2` of the RayService: two LLM deployments behind one endpoint.

Pure Python, standard library only: synth needs neither Ray nor vLLM. The values are checked against the real
libraries by tests/serve.
"""

from __future__ import annotations

import json
import re
from typing import Any

from charts.model_family import ModelFamily

PREFILL_RESOURCE = "pd_prefill"
"""Custom Ray resource that workers for prefill replicas declare (rayStartParams `resources`), 1 a node."""

DECODE_RESOURCE = "pd_decode"
"""Custom Ray resource that workers for decode replicas declare (rayStartParams `resources`), 1 a node."""

IMPORT_PATH = "ray.serve.llm:build_pd_openai_app"

KV_BACKENDS = ("LIBFABRIC", "UCX")

INGRESS_REPLICAS = 2
"""HTTP ingress replicas, one a node at most; each takes 1 CPU of a worker."""

# A node declares 1, so the pin never limits how many replicas a node takes; its GPUs do.
_PIN = 0.001

# Ray's own limit for one request (RAY_SERVE_LLM_ROUTER_HTTP_TIMEOUT), seconds.
_LONGEST_REQUEST_S = 600


def build_serve_config(
    *,
    model_id: str,
    model_source: str,
    prefill_replicas: int,
    decode_replicas: int,
    tensor_parallel_size: int,
    max_model_len: int,
    kv_backend: str,
    accelerator_type: str | None,
    gpu_memory_mib: int,
) -> dict[str, Any]:
    """The declarative Serve config (schema: ray.serve.schema.ServeDeploySchema, Ray 2.58).

    Args:
        model_id: name of the model on the API.
        model_source: Hugging Face id, bucket URI or path of the weights; chooses the row of model_families.toml.
        prefill_replicas: prefill engines, 1 or more.
        decode_replicas: decode engines, 1 or more.
        tensor_parallel_size: GPUs of one engine, 1 or more; they are on one node.
        max_model_len: longest prompt plus answer, tokens.
        kv_backend: NIXL backend that moves the KV cache, `LIBFABRIC` (EFA) or `UCX`.
        accelerator_type: Ray's name of the GPU (`L4`, `H100`...), None for a type that Ray has no name for.
        gpu_memory_mib: memory of one GPU, MiB.

    Raises:
        ValueError: an argument outside of what is allowed, named in the message.

    Every key and the requirement that causes it; P and D are `prefill_config` and `decode_config`:

    ==============================================  ==================================================================
    key                                             because
    ==============================================  ==================================================================
    name                                            status is read under it; see `application_name`
    import_path                                     Ray's own prefill/decode application: no application code
    route_prefix                                    the OpenAI paths (/v1/...) start at the root
    P, D model_loading_config                       same model on both sides: Ray refuses different ids
    P, D accelerator_type                           a replica never starts on another GPU than it was sized for
    P, D engine_kwargs.max_model_len                caps the KV cache that one sequence can ask for
    P, D engine_kwargs.tensor_parallel_size         GPUs of one engine
    P, D engine_kwargs.(table)                      the model family's requirements, reasons in model_families.toml
    P, D ...kv_transfer_config.kv_connector         NIXL is the connector that Ray knows how to address per replica
    P ...kv_transfer_config.kv_role                 kv_producer (kv_both is deprecated for this connector)
    D ...kv_transfer_config.kv_role                 kv_consumer
    P, D ...kv_load_failure_policy                  fail: a failed transfer is an error, never a silent recompute
    P, D ...kv_connector_extra_config.backends      on both sides, or NIXL falls back to UCX over TCP without a word
    P, D placement_group_config.bundle_per_worker   one bundle a GPU; pd_prefill and pd_decode exist on different
                                                    nodes only, so that the phases never share one (Ray packs by
                                                    default, and refuses max_replicas_per_node beside bundles)
    P, D placement_group_config.strategy            STRICT_PACK: the GPUs of one engine are on one node
    P, D runtime_env.env_vars.FI_PROVIDER           efa, with LIBFABRIC: a missing EFA is an error instead of libfabric's
                                                    tcp provider
    P, D runtime_env.env_vars.(table)               the model family's requirements
    P, D deployment_config.num_replicas             as asked for
    P, D deployment_config.graceful_shutdown_...    an in-place change lets the longest request finish (Ray's default
                                                    cuts it after 20 s)
    ingress_deployment_config                       one ingress on each of two nodes: one can be lost
    ==============================================  ==================================================================

    Left out on purpose: `engine_id` (Ray makes one for each replica; a fixed one outlives a restart and leaves stale
    peers), VLLM_NIXL_SIDE_CHANNEL_HOST and _PORT (Ray sets them for each replica from its node and rank),
    `autoscaling_config` (GPUs are fixed), `proxy_*` (deprecated, ignored), pipeline parallelism (the connector has none).
    """
    counts = {
        "prefill_replicas": prefill_replicas,
        "decode_replicas": decode_replicas,
        "tensor_parallel_size": tensor_parallel_size,
        "max_model_len": max_model_len,
        "gpu_memory_mib": gpu_memory_mib,
    }
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}={count}: must be 1 or more")
    if kv_backend not in KV_BACKENDS:
        raise ValueError(f"kv_backend={kv_backend}: must be one of {', '.join(KV_BACKENDS)}")
    family = ModelFamily.of(model_source=model_source)
    environment = {**({"FI_PROVIDER": "efa"} if kv_backend == "LIBFABRIC" else {}), **family.environment()}

    def side(*, role: str, resource: str, replicas: int) -> dict[str, Any]:
        return {
            "model_loading_config": {"model_id": model_id, "model_source": model_source},
            **({"accelerator_type": accelerator_type} if accelerator_type else {}),
            "engine_kwargs": {
                "max_model_len": max_model_len,
                "tensor_parallel_size": tensor_parallel_size,
                **family.engine(replica_memory_mib=gpu_memory_mib * tensor_parallel_size),
                "kv_transfer_config": {
                    "kv_connector": "NixlConnector",
                    "kv_role": role,
                    "kv_load_failure_policy": "fail",
                    "kv_connector_extra_config": {"backends": [kv_backend]},
                },
            },
            "placement_group_config": {
                "bundle_per_worker": {"CPU": 1, "GPU": 1, resource: _PIN},
                "strategy": "STRICT_PACK",
            },
            **({"runtime_env": {"env_vars": dict(environment)}} if environment else {}),
            "deployment_config": {"num_replicas": replicas, "graceful_shutdown_timeout_s": _LONGEST_REQUEST_S},
        }

    return {
        "applications": [
            {
                "name": application_name(model_id=model_id),
                "import_path": IMPORT_PATH,
                "route_prefix": "/",
                "args": {
                    "prefill_config": side(role="kv_producer", resource=PREFILL_RESOURCE, replicas=prefill_replicas),
                    "decode_config": side(role="kv_consumer", resource=DECODE_RESOURCE, replicas=decode_replicas),
                    "ingress_deployment_config": {"num_replicas": INGRESS_REPLICAS, "max_replicas_per_node": 1},
                },
            }
        ]
    }


def application_name(*, model_id: str) -> str:
    """The leading letters of the model's name, in lower case: `qwen3.5-9b` is `qwen`; `llm` where there are none.

    It is the key of the application in the RayService's status, and stays the same from one version or size of a
    model to the next, so that such a change updates the application instead of replacing it.
    """
    leading = re.match("[A-Za-z]+", model_id.rstrip("/").rsplit("/", 1)[-1])
    return leading[0].lower() if leading else "llm"


def serve_config_yaml(config: dict[str, Any]) -> str:
    """The config as the string that a RayService takes: indented JSON, which is YAML too.

    `kubectl get rayservice -o yaml` and the console show it line by line as written here; it needs no YAML library at
    synth and no quoting rules of one's own. The order is the order of the keys, so equal configs are equal texts.
    """
    return json.dumps(config, indent=2, ensure_ascii=False)
