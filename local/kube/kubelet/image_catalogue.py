"""Container images by their references."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from local.kube.binaries import KubeBinaries, kuberay_version
from local.kube.kubelet.image import Image
from local.serve.engine_environment import ROOT, engine_environment

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FOLDER = Path(__file__).parent
_PLUGINS = "/var/lib/kubelet/device-plugins"
MACHINE = "localhost/machine"
"""Reference of an image that is this machine and nothing else."""

# What keeps Ray small: the pods' requests are those of large machines, this one has a few cores for all of them.
_SMALL_RAY = {
    # Ray would start one Python process for each declared CPU at once.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # The memory that Ray would watch is that of the whole machine.
    "RAY_memory_monitor_refresh_ms": "0",
    # Ray tells which resources a replica waits for after 30 s; nothing here comes later.
    "RAY_SERVE_SLOW_STARTUP_WARNING_S": "8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Who deletes a pod waits for no request of anybody else; Ray would go on for 30 s, which is the pod's whole grace.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "3",
    # Half of Ray's: the verification waits for the next export.
    "RAY_metrics_report_interval_ms": "5000",
}


class ImageError(Exception):
    """There is nothing on this machine that could stand for the image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCatalogue:
    """Knows the images of this application, at the versions that are here, and `MACHINE`."""

    binaries: KubeBinaries

    def find(self, reference: str) -> Image:
        """Raises ImageError, with a text as of a registry that does not have the image."""
        name, _, tag = reference.rpartition(":") if ":" in reference.rsplit("/", 1)[-1] else (reference, "", "latest")
        if name == MACHINE:
            return Image(environment={"PATH": _PATH})
        if name.endswith("/ray") and tag.startswith("serve-llm-"):
            return _ray()
        if name.endswith("kuberay/operator"):
            return self._operator(reference, tag)
        if name.endswith("/aws-efa-k8s-device-plugin"):
            return _device_plugin("vpc.amazonaws.com/efa", "/node/dev/infiniband/uverbs*")
        if name.endswith("nvidia/k8s-device-plugin"):
            return _device_plugin("nvidia.com/gpu", "/node/dev/nvidia[0-9]*")
        raise ImageError(f'failed to resolve image "{reference}": {reference}: not found')

    def _operator(self, reference: str, tag: str) -> Image:
        if tag.removeprefix("v") != kuberay_version():
            raise ImageError(
                f'failed to resolve image "{reference}": this machine has the operator of version {kuberay_version()} only'
            )
        program = self.binaries.path("kuberay-operator")
        return Image(entrypoint=("/manager",), environment={"PATH": _PATH}, user=65532, files={"/manager": program})


def _ray() -> Image:
    environment = ROOT / ".venv-serve"
    if not (environment / "bin" / "ray").exists():
        raise ImageError(f"the image is made of {environment}, which is not there: make .venv-serve/.ready")
    folder = environment.resolve()
    python = (folder / "bin" / "python3").resolve().parents[1]
    return Image(
        environment={
            "PATH": f"{folder / 'bin'}:{_PATH}",
            "HOME": "/tmp",
            "EFA_DEVICES": "/sys/class/infiniband",
            **_SMALL_RAY,
            **engine_environment(),
        },
        programs=_hidden(ROOT, folder, python),
        # The machine's own would put another PATH into the login shells that KubeRay's commands run in.
        files={"/etc/profile": _FOLDER / "profile.sh"},
        reads_accelerator=True,
    )


def _device_plugin(resource: str, devices: str) -> Image:
    program = _FOLDER / "device_plugin.py"
    python = Path(sys.executable).resolve()
    return Image(
        entrypoint=(str(python), str(program)),
        environment={"PATH": _PATH, "RESOURCE": resource, "DEVICES": devices, "PYTHON": str(python), "PROGRAM": str(program)},
        programs=_hidden(ROOT, python.parents[1]),
        files={"/usr/bin/nvidia-device-plugin": _FOLDER / "device_plugin.sh"},
        node_folders={_PLUGINS: _PLUGINS, "/node/dev": "/dev"},
    )


def _hidden(*paths: Path) -> tuple[Path, ...]:
    """Those that a container would not see, because it has folders of its own in their place."""
    return tuple(path for path in paths if path.parts[1] in ("tmp", "run", "dev"))
