"""What an informer knows and tells, and that it does not wait for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from local.kube.api_client import ApiClient
from local.kube.control_plane import ControlPlane
from local.kube.kubelet.informer import Informer
from local.kube.real_kube import free_port
from tests.waiting import until

CONFIG_MAPS = "/api/v1/namespaces/llm/configmaps"


@contextmanager
def started(informer: Informer) -> Iterator[Informer]:
    informer.start()
    try:
        yield informer
    finally:
        informer.stop()


def test_it_tells_what_was_there_and_what_came_and_went(api: ApiClient) -> None:
    api.create(CONFIG_MAPS, {"metadata": {"name": "before"}})
    changed: list[str] = []
    deleted: list[str] = []

    def name(item: dict[str, Any]) -> str:
        return item["metadata"]["name"]

    with started(
        Informer(
            api=api,
            path=CONFIG_MAPS,
            changed=lambda item: changed.append(name(item)),
            deleted=lambda item: deleted.append(name(item)),
        )
    ) as informer:
        assert "before" in changed
        api.create(CONFIG_MAPS, {"metadata": {"name": "after"}})
        until(lambda: "after" in changed, "the new object is told")
        assert ("llm", "after") in informer.objects
        api.delete(f"{CONFIG_MAPS}/before")
        until(lambda: deleted == ["before"], "the deleted object is told")
        assert ("llm", "before") not in informer.objects
    api.delete(f"{CONFIG_MAPS}/after")


def test_a_start_that_is_refused_says_so(control_plane: ControlPlane) -> None:
    nobody = ApiClient(server=control_plane.api.server, context=control_plane.api.context, token=control_plane.token("nobody"))
    with pytest.raises(TimeoutError, match=r"no list of /api/v1/pods within 5 s: 403 .*cannot list resource"):
        Informer(api=nobody, path="/api/v1/pods").start(timeout_s=5)


def test_a_start_without_an_api_server_says_so(api: ApiClient) -> None:
    gone = ApiClient(server=f"https://127.0.0.1:{free_port()}", context=api.context, token="")
    with pytest.raises(TimeoutError, match="Connection refused"):
        Informer(api=gone, path="/api/v1/pods").start(timeout_s=5)
