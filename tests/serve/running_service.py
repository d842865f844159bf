"""What the tests of the running application share."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from local.serve.local_cluster import LocalCluster
from local.serve.ray_service import RayService
from local.serve.replica_row import ReplicaRow
from local.serve.serve_api import ServeApi

START_S = 120


class RunningService:
    """A cluster with the RayService deployed and RUNNING, as KubeRay leaves it."""

    def __init__(self, *, service: RayService, environment: Mapping[str, str]) -> None:
        self.service = service
        self.cluster = LocalCluster(nodes=service.nodes, environment=environment)

    def __enter__(self) -> RunningService:
        self.cluster.__enter__()
        try:
            self.api = ServeApi(dashboard_url=self.cluster.dashboard_url)
            self.api.deploy(self.service.serve_config)
            self.api.wait_running(timeout_s=START_S)
            self.url = self.api.url()
        except BaseException:
            self.cluster.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cluster.__exit__(kind, error, trace)

    @property
    def model(self) -> str:
        return self.service.serve_config["applications"][0]["args"]["decode_config"]["model_loading_config"]["model_id"]

    def config(self) -> dict[str, Any]:
        """A copy of the template's config, to change."""
        return copy.deepcopy(dict(self.service.serve_config))

    def rows(self) -> list[ReplicaRow]:
        return ReplicaRow.of(details=self.api.details(), groups=self.cluster.groups(), logs=self.cluster.logs)

    def engines(self, phase: str) -> list[ReplicaRow]:
        """Running replicas of `Prefill` or `Decode`."""
        return [row for row in self.rows() if row.deployment.startswith(f"{phase}:") and row.state == "RUNNING"]


def sides(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """prefill_config and decode_config of the only application."""
    args = config["applications"][0]["args"]
    yield args["prefill_config"]
    yield args["decode_config"]
