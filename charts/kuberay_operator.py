"""The operator that turns a RayService into pods."""

from charts.helm_chart import HelmChart

_REPOSITORY = "https://ray-project.github.io/kuberay-helm/"


def kuberay_operator(*, version: str, node_labels: dict[str, str]) -> HelmChart:
    """The operator and its CRDs, on the nodes with `node_labels`. Helm installs the CRDs once and never upgrades them."""
    return HelmChart(
        chart="kuberay-operator",
        repository=_REPOSITORY,
        version=version,
        release="kuberay-operator",
        namespace="kuberay-system",
        values={
            "nodeSelector": dict(node_labels),
            "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
        },
    )
