"""Advertises vpc.amazonaws.com/efa on the GPU nodes."""

from charts.helm_chart import HelmChart

# https://github.com/aws/eks-charts/tree/master/stable/aws-efa-k8s-device-plugin, read 2026-12-02
_REPOSITORY = "https://aws.github.io/eks-charts"
_VERSION = "v0.5.30"
_IMAGE = "eks/aws-efa-k8s-device-plugin"


def efa_device_plugin(*, registry: str, instance_type: str, node_labels: dict[str, str], taint_key: str) -> HelmChart:
    """The plugin on the nodes with `node_labels` only: without an EFA interface it crash-loops.

    `registry` is the region's, since the chart names one region's. `instance_type` replaces the chart's list of types,
    which is older than the newest types. The chart tolerates no taint by itself.
    """
    return HelmChart(
        chart="aws-efa-k8s-device-plugin",
        repository=_REPOSITORY,
        version=_VERSION,
        release="aws-efa-k8s-device-plugin",
        namespace="kube-system",
        values={
            "image": {"repository": f"{registry}/{_IMAGE}"},
            "supportedInstanceLabels": {"keys": ["node.kubernetes.io/instance-type"], "values": [instance_type]},
            "nodeSelector": dict(node_labels),
            "tolerations": [{"key": taint_key, "operator": "Exists", "effect": "NoSchedule"}],
            "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}, "limits": {"cpu": "100m", "memory": "128Mi"}},
        },
    )
