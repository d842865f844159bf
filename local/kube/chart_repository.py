"""A Helm repository on the loopback with the charts of this application."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from charts.efa_device_plugin import efa_device_plugin
from charts.helm_chart import HelmChart
from charts.kuberay_operator import kuberay_operator
from charts.nvidia_device_plugin import nvidia_device_plugin
from local.kube.binaries import KubeBinaries, kuberay_version
from local.kube.client_caches import client_caches

_TEMPLATES = Path(__file__).parent / "charts"
# What a chart's own repository gives as appVersion, https://github.com/aws/eks-charts, read 2026-12-02.
_APP_VERSIONS = {"aws-efa-k8s-device-plugin": "v0.5.20"}
PULL_TIMEOUT_SECONDS = 20.0
_PACKAGE_TIMEOUT_SECONDS = 120.0


class ChartError(Exception):
    """helm refused; the last line of what it said."""


@dataclass(slots=True, kw_only=True)
class ChartRepository:
    """Serves every chart at the version that charts/ pins, from `start` until `stop`.

    Each is the chart of its own repository where `pull_charts` could get it and `pulled` allows that, else one made here:
    the operator's from its Go module, the device plugins' from local/kube/charts. `origins` says which.
    """

    binaries: KubeBinaries
    folder: Path
    pulled: bool = True
    origins: Mapping[str, str] = field(default_factory=dict, init=False)
    _server: ThreadingHTTPServer | None = field(default=None, init=False, repr=False)

    @property
    def url(self) -> str:
        """What CHART_REPOSITORY is set to."""
        assert self._server, "not started"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Returns when the repository answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.origins = {chart.chart: self._put(chart) for chart in charts()}
        _helm(self.binaries, "repo", "index", self.folder)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(self.folder)))
        threading.Thread(target=self._server.serve_forever, daemon=True, name="charts").start()

    def stop(self) -> None:
        """Answers no more."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _put(self, chart: HelmChart) -> str:
        pulled = self.binaries.cache / "charts" / _archive(chart)
        if self.pulled and pulled.exists():
            shutil.copy(pulled, self.folder)
            return chart.repository
        made = self.folder / "src" / chart.chart
        shutil.copytree(_TEMPLATES / chart.chart, made)
        app_version = _APP_VERSIONS.get(chart.chart, chart.version)
        origin = "a DaemonSet of this project"
        if chart.chart == "kuberay-operator":
            config = self.binaries.operator_config
            shutil.copytree(config / "crd" / "bases", made / "crds")
            shutil.copytree(config / "manager", made / "manager")
            (made / "rbac").mkdir()
            resources = [path for path in (config / "rbac").glob("*.yaml") if path.name != "kustomization.yaml"]
            for path in resources:
                shutil.copy(path, made / "rbac")
            origin = "the operator's Go module"
        versions = ("--version", chart.version, "--app-version", app_version)
        _helm(self.binaries, "package", made, *versions, "--destination", self.folder)
        return origin


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def charts() -> tuple[HelmChart, ...]:
    """Every chart of the application, at the versions of this tier; the values are not those of a deployment."""
    return (
        kuberay_operator(version=kuberay_version(), node_labels={}),
        nvidia_device_plugin(node_labels={}, taint_key=""),
        efa_device_plugin(registry="", instance_type="", node_labels={}, taint_key=""),
    )


def pull_charts(binaries: KubeBinaries) -> dict[str, str]:
    """Get what is missing from the charts' own repositories into the cache; the reason for each that stays missing."""
    folder = binaries.cache / "charts"
    folder.mkdir(parents=True, exist_ok=True)
    reasons = {}
    for chart in charts():
        if (folder / _archive(chart)).exists():
            continue
        arguments = ("pull", chart.chart, "--repo", chart.repository, "--version", chart.version, "--destination", folder)
        try:
            _helm(binaries, *arguments, timeout_s=PULL_TIMEOUT_SECONDS)
        except ChartError as error:
            # The end of helm's sentence is the cause.
            reasons[chart.chart] = str(error).rpartition(": ")[2]
        except subprocess.TimeoutExpired:
            reasons[chart.chart] = f"no answer within {PULL_TIMEOUT_SECONDS:.0f} s"
    return reasons


def _archive(chart: HelmChart) -> str:
    return f"{chart.chart}-{chart.version}.tgz"


def _helm(binaries: KubeBinaries, *arguments: str | Path, timeout_s: float = _PACKAGE_TIMEOUT_SECONDS) -> None:
    run = subprocess.run(
        [binaries.path("helm"), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **client_caches(binaries.cache / "helm-home")},
    )
    if run.returncode:
        raise ChartError(f"helm {arguments[0]}: {run.stderr.strip().splitlines()[-1]}")
