"""Which settings a local Kubernetes can follow, asked before anything starts."""

from __future__ import annotations

from local.kube.binaries import KubeBinaries, kuberay_version, kubernetes_version
from local.kube.kubelet.image_catalogue import ImageCatalogue, ImageError
from settings import Settings


def unusable_settings(settings: Settings) -> list[str]:
    """What the settings ask for and this machine has not: the setting, the value and what is allowed."""
    problems = []
    minor = kubernetes_version().rpartition(".")[0]
    if settings.k8s_version != minor:
        problems.append(f"K8S_VERSION={settings.k8s_version}: the local Kubernetes is {kubernetes_version()}; allowed is {minor}")
    if settings.kuberay_version != kuberay_version():
        problems.append(
            f"KUBERAY_VERSION={settings.kuberay_version}: the local operator is another; allowed is {kuberay_version()}"
        )
    try:
        ImageCatalogue(binaries=KubeBinaries.here()).find(settings.dlc_image)
    except ImageError as error:
        problems.append(f"DLC_IMAGE={settings.dlc_image}: {error}; allowed is a ray:serve-llm-... image, which Ray here stands for")
    return problems
