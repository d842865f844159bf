"""Advertises nvidia.com/gpu on the GPU nodes."""

from charts.helm_chart import HelmChart

# https://github.com/NVIDIA/k8s-device-plugin, release of 2026-08-20
_REPOSITORY = "https://nvidia.github.io/k8s-device-plugin"
_VERSION = "0.20.0"


def nvidia_device_plugin(*, node_labels: dict[str, str], taint_key: str) -> HelmChart:
    """The plugin on the nodes with `node_labels` only, which carry the label that the chart's own affinity asks for."""
    return HelmChart(
        chart="nvidia-device-plugin",
        repository=_REPOSITORY,
        version=_VERSION,
        release="nvidia-device-plugin",
        namespace="kube-system",
        values={
            "nodeSelector": dict(node_labels),
            "tolerations": [{"key": taint_key, "operator": "Exists", "effect": "NoSchedule"}],
            "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "256Mi"}},
        },
    )
