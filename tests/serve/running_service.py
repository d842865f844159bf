"""A running application and what the tests ask of it."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import httpx

from local.serve.local_cluster import LocalCluster
from local.serve.openai_client import OpenAiClient
from local.serve.ray_service import RayService
from local.serve.replica_row import ReplicaRow
from local.serve.serve_api import ServeApi

_START_S = 180


@dataclass(slots=True)
class Tally:
    """Requests that were answered, and what the others met."""

    answered: int = 0
    failures: list[str] = field(default_factory=list)


class RunningService:
    """Started by `with`; `service` is on the cluster and RUNNING from then on."""

    def __init__(self, *, service: RayService, environment: Mapping[str, str]) -> None:
        self.service = service
        self.cluster = LocalCluster(nodes=service.nodes, environment=environment)

    def __enter__(self) -> RunningService:
        self.cluster.__enter__()
        self.api = ServeApi(dashboard_url=self.cluster.dashboard_url)
        try:
            self.apply(self.service.serve_config)
            self.client = OpenAiClient(url=self.api.url())
            [self.model] = self.client.models()
        except BaseException:
            self.cluster.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cluster.__exit__(kind, error, trace)

    def apply(self, config: Mapping[str, Any]) -> None:
        """Deploy in place and wait until every application is RUNNING."""
        self.api.deploy(config)
        self.api.wait_running(timeout_s=_START_S)

    def changed(self, **engine: Any) -> dict[str, Any]:
        """The template's config with other engine arguments or, as `prefill` and `decode`, replica counts."""
        config = copy.deepcopy(dict(self.service.serve_config))
        arguments = config["applications"][0]["args"]
        for phase in ("prefill", "decode"):
            side = arguments[f"{phase}_config"]
            if phase in engine:
                side["deployment_config"]["num_replicas"] = engine[phase]
            side["engine_kwargs"] |= {key: value for key, value in engine.items() if key not in ("prefill", "decode")}
        return config

    def rows(self, deployment: str = "") -> list[ReplicaRow]:
        """RUNNING replicas of the deployments whose name starts so."""
        rows = ReplicaRow.of(details=self.api.details(), groups=self.cluster.groups(), logs=self.cluster.logs)
        return [row for row in rows if row.deployment.startswith(deployment) and row.state == "RUNNING"]

    def post(self, body: Any, path: str = "/v1/chat/completions") -> httpx.Response:
        """Any body: bytes as they are, everything else as JSON."""
        content = {"content": body, "headers": {"Content-Type": "application/json"}} if isinstance(body, bytes) else {"json": body}
        return httpx.post(f"{self.client.url}{path}", timeout=120, **content)

    def ask(self, text: str) -> str:
        return self.client.chat(model=self.model, text=text, max_tokens=24)

    @contextmanager
    def under_load(self, *, clients: int = 4) -> Iterator[Tally]:
        """Requests without pause from `clients` threads; the tally is complete when the block has ended."""
        tally, stop, lock = Tally(), threading.Event(), threading.Lock()

        def run(number: int) -> None:
            count = 0
            while not stop.is_set():
                count += 1
                text = f"client {number} question {count}"
                try:
                    answer = self.ask(text)
                    wrong = "" if answer.endswith(text) else f"answered {answer!r} to {text!r}"
                except httpx.HTTPStatusError as error:
                    wrong = f"{error.response.status_code}: {error.response.text[:200]}"
                except httpx.HTTPError as error:
                    wrong = repr(error)
                with lock:
                    if wrong:
                        tally.failures.append(wrong)
                    else:
                        tally.answered += 1

        threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield tally
        finally:
            stop.set()
            for thread in threads:
                thread.join()
