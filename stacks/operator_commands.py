"""The commands that a person copies from the CloudFormation console."""

import json
from dataclasses import dataclass

from settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCommand:
    """One stack output: a complete shell command and what it shows."""

    output: str
    text: str
    description: str


def operator_commands(settings: Settings) -> list[OperatorCommand]:
    """Commands for a shell with kubectl and curl, after KubeconfigCommand."""
    namespace, name = settings.namespace, settings.ray_service_name
    pods = f"kubectl get pods -n {namespace} -l ray.io/node-type"
    chat = json.dumps(
        {
            "model": settings.model_id,
            "messages": [{"role": "user", "content": "Explain the benefits of prefill/decode disaggregation."}],
            "max_tokens": 200,
            "temperature": 0.7,
        }
    )
    columns = r"NODE:.metadata.name,GPU:.status.allocatable.nvidia\.com/gpu,EFA:.status.allocatable.vpc\.amazonaws\.com/efa"
    return [
        OperatorCommand(
            output="StatusCommand",
            text=f"kubectl get rayservice -n {namespace} {name}; kubectl get pods -n {namespace} -o wide; "
            f"kubectl get nodes -l role=gpu-worker -o 'custom-columns={columns}'",
            description="State of the RayService, its pods with their nodes, GPU and EFA capacity",
        ),
        OperatorCommand(
            output="PortForwardCommand",
            text=f"kubectl port-forward -n {namespace} svc/{name}-serve-svc 8000:8000",
            description="Opens the endpoint on 127.0.0.1:8000 for ListModelsCommand and ChatCommand; runs until stopped",
        ),
        OperatorCommand(
            output="ListModelsCommand",
            text="curl --fail --silent --show-error http://127.0.0.1:8000/v1/models",
            description="Lists the served model, through PortForwardCommand",
        ),
        OperatorCommand(
            output="ChatCommand",
            text="curl --fail --silent --show-error http://127.0.0.1:8000/v1/chat/completions "
            f"--header 'Content-Type: application/json' --data '{chat}'",
            description="A chat completion, through PortForwardCommand",
        ),
        OperatorCommand(
            output="VerifyEfaCommand",
            text=f'for POD in $({pods}=worker -o name); do echo "$POD $(kubectl exec -n {namespace} "$POD" -c ray-worker -- '
            "sh -c \"grep -rhoE 'Backend (LIBFABRIC|UCX) was instantiated' /tmp/ray/session_latest/logs/ | sort | uniq -c; "
            'cat /sys/class/infiniband/*/ports/1/hw_counters/tx_bytes")"; done',
            description="Per worker: the backend that NIXL chose and the bytes that its EFA devices sent; run it around a "
            "ChatCommand with a prompt of some 1,000 words and the bytes rise",
        ),
        OperatorCommand(
            output="NcclBandwidthCommand",
            text=f"kubectl exec -n {namespace} $({pods}=head -o name) -c ray-head -- python3 /opt/ray-llm/nccl_bandwidth.py",
            description="NCCL all-reduce bandwidth across the GPU nodes; about 1 GiB of every GPU must be free and the "
            "endpoint idle",
        ),
        OperatorCommand(
            output="LogsCommand",
            text=f"kubectl logs -n {namespace} -l ray.io/cluster --all-containers --prefix --tail 200; kubectl exec -n "
            f"{namespace} $({pods}=head -o name) -c ray-head -- sh -c 'tail -n 50 /tmp/ray/session_latest/logs/serve/*.log'",
            description="Last lines of all Ray pods and of Serve's own logs",
        ),
    ]
