"""Follows all objects of one kind."""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from local.kube.api_client import ApiClient, ApiError

_log = logging.getLogger("informer")
# The API server ends a watch by itself; a silent connection is given up after this.
_WATCH_SECONDS = 240
_PAUSE_SECONDS = 0.5
_START_SECONDS = 60.0


@dataclass(slots=True, kw_only=True)
class Informer:
    """Keeps `objects`, by namespace and name, as the API server has them, from `start` until `stop`.

    `changed` is called with every object that is new or differs, `deleted` with the last known version of one that is gone;
    both from one thread, in the order of the API server.
    """

    api: ApiClient
    path: str
    changed: Callable[[dict[str, Any]], None] = lambda _: None
    deleted: Callable[[dict[str, Any]], None] = lambda _: None
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _listed: threading.Event = field(default_factory=threading.Event, init=False)
    _refused: str = field(default="", init=False)

    def start(self, *, timeout_s: float = _START_SECONDS) -> None:
        """Returns when the objects that exist are known. Raises TimeoutError, with what kept it, if they are not in time."""
        threading.Thread(target=self._follow, daemon=True, name=f"informer {self.path}").start()
        if not self._listed.wait(timeout_s):
            self.stop()
            raise TimeoutError(f"no list of {self.path} within {timeout_s:.0f} s: {self._refused or 'no answer'}")

    def stop(self) -> None:
        """No call of `changed` or `deleted` begins after this."""
        self._stop.set()

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                version = self._list()
                self._listed.set()
                while not self._stop.is_set():
                    version = self._watch(version)
            except (ApiError, OSError, ValueError, LookupError) as error:
                self._refused = str(error)
                _log.info("%s: %s", self.path, error)
                self._stop.wait(_PAUSE_SECONDS)

    def _list(self) -> str:
        answer = self.api.get(self.path)
        found = {_key(item): item for item in answer["items"]}
        for key in [key for key in self.objects if key not in found]:
            self._gone(key)
        for key, item in found.items():
            self._seen(key, item)
        return answer["metadata"]["resourceVersion"]

    def _watch(self, version: str) -> str:
        """The resource version up to which everything is known. Raises LookupError when that is too old to go on."""
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"
        request = urllib.request.Request(f"{self.api.server}{self.path}?{query}")
        request.add_header("Authorization", f"Bearer {self.api.token}")
        with urllib.request.urlopen(request, timeout=_WATCH_SECONDS + 30, context=self.api.context) as lines:
            for line in lines:
                if self._stop.is_set():
                    break
                event = json.loads(line)
                item = event["object"]
                if event["type"] == "ERROR":
                    raise LookupError(item.get("message", "the watch ended"))
                version = item["metadata"]["resourceVersion"]
                if event["type"] == "DELETED":
                    self.objects[_key(item)] = item
                    self._gone(_key(item))
                elif event["type"] != "BOOKMARK":
                    self._seen(_key(item), item)
        return version

    def _seen(self, key: tuple[str, str], item: dict[str, Any]) -> None:
        known = self.objects.get(key)
        self.objects[key] = item
        if known is None or known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            self._call(self.changed, item)

    def _gone(self, key: tuple[str, str]) -> None:
        self._call(self.deleted, self.objects.pop(key))

    def _call(self, callback: Callable[[dict[str, Any]], None], item: dict[str, Any]) -> None:
        if not self._stop.is_set():
            try:
                callback(item)
            except Exception:
                # One object that cannot be handled must not hide the next.
                _log.exception("%s %s", self.path, item["metadata"]["name"])


def _key(item: dict[str, Any]) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
