"""A client of the local API server as its administrator, for what would be too many calls of kubectl."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 10.0


class ApiError(Exception):
    """The API server refused, or did not answer (`status` 0)."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiClient:
    """Requests with a bearer token; every failure is an ApiError."""

    server: str
    token: str
    context: ssl.SSLContext

    @classmethod
    def of_kubeconfig(cls, file: Path) -> ApiClient:
        """The credentials of ControlPlane.admin_kubeconfig."""
        config = json.loads(file.read_text())
        cluster = config["clusters"][0]["cluster"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        return cls(server=cluster["server"], token=config["users"][0]["user"]["token"], context=context)

    def get(self, path: str) -> Any:
        """The parsed answer."""
        return json.loads(self.text(path))

    def text(self, path: str) -> str:
        """The answer as it is."""
        return self._request("GET", path)

    def create(self, path: str, item: dict[str, Any]) -> Any:
        """The object as the API server keeps it."""
        return json.loads(self._request("POST", path, json.dumps(item), "application/json"))

    def patch(self, path: str, change: dict[str, Any]) -> Any:
        """A strategic merge patch; the object afterwards."""
        return json.loads(self._request("PATCH", path, json.dumps(change), "application/strategic-merge-patch+json"))

    def merge(self, path: str, change: dict[str, Any]) -> Any:
        """A JSON merge patch, which custom resources take; the object afterwards."""
        return json.loads(self._request("PATCH", path, json.dumps(change), "application/merge-patch+json"))

    def delete(self, path: str) -> None:
        """What is not there is deleted."""
        try:
            self._request("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise

    def _request(self, method: str, path: str, body: str | None = None, content_type: str = "") -> str:
        request = urllib.request.Request(self.server + path, method=method, data=body.encode() if body else None)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Accept", "application/json, */*")
        if body:
            request.add_header("Content-Type", content_type)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=self.context) as response:
                return response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                raise ApiError(error.code, error.read(2000).decode(errors="replace")) from None
        except OSError as error:
            raise ApiError(0, str(error)) from None
