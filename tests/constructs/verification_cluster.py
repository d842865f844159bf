"""A cluster behind the interface of KubernetesApi: what the handler reads and changes, with faults on request."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from constructs.verification.handler.cluster_error import ClusterError

from tests.constructs.verification_states import state

CHAT = "/api/v1/namespaces/inference/services/ray-llm-serve-svc:8000/proxy/v1/chat/completions"
PODS = "/api/v1/namespaces/inference/pods"
WARNINGS = "/api/v1/namespaces/inference/events?fieldSelector=involvedObject.apiVersion%3Dray.io%2Fv1%2Ctype%3DWarning"
FOREVER = 10**9


class Cluster:
    """Serves `state`; counters rise with each chat completion.

    `fails[text]` is (status, times): a call whose path contains the text fails so often with that status.
    """

    def __init__(self, **changes: Any) -> None:
        self.state = state(**changes)
        self.chats: list[dict] = []
        self.deleted: list[str] = []
        self.fails: dict[str, tuple[int, int]] = {}
        self.backends = ["LIBFABRIC"]
        self.devices = True
        self.bytes_per_chat = 17_000_000
        self.transfers_per_chat = 1
        self.failed_per_chat = 0
        self.answer: Callable[[str, int], str] = lambda prompt, number: prompt[-40:]
        self.events: Callable[[str], list[str]] | None = None

    def _fail(self, path: str) -> None:
        for part, (status, times) in self.fails.items():
            if part in path and times:
                self.fails[part] = (status, times - 1)
                raise ClusterError(f"X {path}: {status}", status=status)

    def json(self, path: str) -> Any:
        self._fail(path)
        if path.startswith("/apis/ray.io/v1/namespaces/inference/rayservices/"):
            if self.state["service"] is None:
                raise ClusterError("no", status=404)
            return self.state["service"]
        if path == f"{PODS}?labelSelector=ray.io%2Fcluster":
            return {"items": self.state["pods"]}
        if path == WARNINGS:
            return {"items": self.state["events"]}
        if path.endswith(":8265/proxy/api/serve/applications/"):
            if self.state["applications"] is None:
                raise ClusterError("no", status=503)
            return {"applications": self.state["applications"]}
        if path.endswith(":9402/proxy/"):
            sent = {"rdmap0s6": len(self.chats) * self.bytes_per_chat} if self.devices else {}
            return {"efa_tx_bytes": sent, "nixl_backends": self.backends}
        raise AssertionError(path)

    def text(self, path: str) -> str:
        self._fail(path)
        if path.endswith(":8080/proxy/metrics"):
            # Only the decode replica counts.
            chats = len(self.chats) if "/w2:" in path else 0
            failed = f"ray_vllm_nixl_num_failed_transfers {chats * self.failed_per_chat}\n" if self.failed_per_chat else ""
            return f'ray_vllm_nixl_bytes_transferred_count{{model_name="m"}} {chats * self.transfers_per_chat}\n{failed}'
        assert path.startswith(f"{PODS}/") and "/log?" in path, path
        return self.state["log"]

    def delete(self, path: str) -> None:
        self._fail(path)
        self.deleted.append(path)

    def lines(self, path: str, body: dict, *, timeout_s: float) -> Iterator[str]:
        assert path == CHAT
        assert timeout_s <= 90
        self._fail(path)
        prompt = body["messages"][0]["content"]
        self.chats.append(body)
        if self.events:
            yield from self.events(prompt)
            return
        answer = self.answer(prompt, len(self.chats))
        yield 'data: {"choices": [{"delta": {"role": "assistant"}}]}'
        for part in (answer[:20], answer[20:]):
            yield "data: " + json.dumps({"choices": [{"delta": {"content": part}}]})
            yield ""
        yield 'data: {"choices": []}'
        yield "data: [DONE]"
