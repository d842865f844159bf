"""Settings that the template tests and the static checks synthesize."""

from catalog.efa_instance_type import efa_instance_types

COMBINATIONS: dict[str, dict[str, str]] = {
    "defaults": {},
    "account": {"CDK_DEFAULT_ACCOUNT": "123456789012"},
    "private endpoint, 3 NAT": {"PUBLIC_ACCESS_CIDRS": "none", "NAT_GATEWAYS": "3"},
    "narrow endpoint, zone": {"PUBLIC_ACCESS_CIDRS": "203.0.113.0/24,198.51.100.7/32", "GPU_AZ": "sa-east-1c"},
    "china": {"REGION": "cn-north-1"},
    "extended support": {"K8S_VERSION": "1.32"},
    "1.33": {"K8S_VERSION": "1.33"},
    "ucx, verify off": {"KV_BACKEND": "UCX", "VERIFY": "off"},
    "verify warn, stage": {"VERIFY": "warn", "STAGE": "prod"},
    "more replicas": {"PREFILL_REPLICAS": "2", "DECODE_REPLICAS": "3", "GPU_NODE_COUNT": "5", "SYSTEM_NODE_COUNT": "3"},
    "tensor parallel": {"GPU_NODE_TYPE": "g6e.48xlarge", "TENSOR_PARALLEL_SIZE": "4", "DECODE_REPLICAS": "2"},
    "names": {
        "CLUSTER_NAME": "other",
        "GPU_NODEGROUP_NAME": "gpus",
        "RAY_SERVICE_NAME": "chat",
        "NAMESPACE": "llm",
        "MODEL_ID": "llama-3",
        "MODEL_SOURCE": "meta-llama/Llama-3.1-8B-Instruct",
        "HF_TOKEN_SECRET": "hugging-face",
        "KUBERAY_VERSION": "1.5.1",
    },
    "mirrored charts": {"CHART_REPOSITORY": "oci://123456789012.dkr.ecr.eu-west-1.amazonaws.com/charts"},
    **{name: {"GPU_NODE_TYPE": name} for name in efa_instance_types()},
}
