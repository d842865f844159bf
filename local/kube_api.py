"""A stand-in for the Kubernetes API server of an EKS cluster, as far as this project's verification asks it.

TLS with an authority of its own, a bearer token that must be an EKS token, and RBAC by the Role that was applied: a
verb that the Role lacks is a 403 here as there. Behind it is what kubectl's stand-in recorded, brought to life by
SimulatedService. LOCAL_KUBE_STATE/service.json = {"fault": "<one of simulated_service.FAULTS>"} breaks it; with a text
"only" it breaks services alone whose RayService contains that text.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ministack.services import eks

from local.simulated_service import SimulatedService

_VERBS = {"GET": "get", "POST": "create", "DELETE": "delete"}


class KubeApi:
    """One server for all clusters of the emulator; a cluster's name is the first part of the path."""

    def __init__(self, *, state: Path, folder: Path) -> None:
        self._state, self._folder = state, folder
        self._services: dict[str, SimulatedService] = {}
        self._lock = threading.Lock()

    def install(self) -> None:
        """Start the server and let EKS describe every cluster with its endpoint and authority."""
        key, certificate = self._folder / "kube-key.pem", self._folder / "kube-cert.pem"
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        name = ["-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run(
            ["openssl", "req", "-x509", *curve, *name, "-keyout", key, "-out", certificate], check=True, capture_output=True
        )
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True, name="kube-api").start()
        authority = base64.b64encode(certificate.read_bytes()).decode()
        original = eks._sanitize

        def described(cluster: dict[str, Any]) -> dict[str, Any]:
            endpoint = f"https://127.0.0.1:{server.server_address[1]}/{cluster['name']}"
            return {**original(cluster), "endpoint": endpoint, "certificateAuthority": {"data": authority}}

        eks._sanitize = described

    def answer(self, method: str, path: str, token: str, body: bytes) -> tuple[int, str]:
        """Status and text."""
        if not token.startswith("Bearer k8s-aws-v1."):
            return 401, "Unauthorized"
        path = path.partition("?")[0]
        cluster, path = re.fullmatch(r"/([^/]+)(/.*)", path).groups()  # type: ignore[union-attr]
        parsed = re.fullmatch(r"/(?:api/v1|apis/([\w.]+)/\w+)/namespaces/([^/]+)/(\w+)(?:/([^/]+)(?:/(\w+)(/.*)?)?)?", path)
        if not parsed:
            return 404, "no such path"
        group, namespace, resource, name, subresource, rest = (part or "" for part in parsed.groups())
        objects = self._objects(cluster)
        verb = "list" if method == "GET" and not name else _VERBS[method]
        asked = f"{resource}/{subresource}" if subresource else resource
        if not _allowed(objects, namespace, group, asked, name, verb):
            return 403, f"cannot {verb} {asked} {name} in {namespace}"
        with self._lock:
            return self._serve(cluster, objects, namespace, asked, name, rest, verb, body)

    def _serve(
        self, cluster: str, objects: dict[str, Any], namespace: str, asked: str, name: str, rest: str, verb: str, body: bytes
    ) -> tuple[int, str]:
        service = next((item for key, item in objects.items() if key.startswith(f"RayService/{namespace}/")), None)
        simulated = self._services.setdefault(cluster, SimulatedService())
        simulated.look(service)
        fault = self._fault(service)
        if asked == "pods":
            return 200, json.dumps({"items": simulated.pods(service, fault) if service else []})
        if asked == "events":
            return 200, json.dumps({"items": simulated.warnings(service, fault) if service else []})
        if service is None:
            return 404, "not found"
        if asked == "rayservices":
            return 200, json.dumps(simulated.ray_service(service, fault))
        if asked == "rayclusters":
            simulated.delete_ray_cluster()
            return 200, "{}"
        if asked == "pods/log":
            return 200, "ImportError: libfabric.so.1: cannot open shared object file\n"
        port = name.rpartition(":")[2]
        if (asked, port) == ("services/proxy", "8000"):
            events = [f"data: {json.dumps(event)}\n\n" for event in simulated.chat(json.loads(body))]
            return 200, "".join([*events, "data: [DONE]\n\n"])
        answers = {
            "8265/api/serve/applications/": lambda: json.dumps({"applications": simulated.applications(service, fault)}),
            "9402/": lambda: json.dumps(simulated.report(service, fault)),
            "8080/metrics": simulated.metrics,
        }
        found = answers.get(f"{port}{rest}")
        return (200, found()) if found else (404, "nothing listens there")

    def _objects(self, cluster: str) -> dict[str, Any]:
        file = self._state / f"{cluster}.json"
        return json.loads(file.read_text())["objects"] if file.exists() else {}

    def _fault(self, service: dict[str, Any] | None) -> str:
        file = self._state / "service.json"
        wanted = json.loads(file.read_text()) if file.exists() else {"fault": ""}
        return wanted["fault"] if wanted.get("only", "") in json.dumps(service) else ""


def _allowed(objects: dict[str, Any], namespace: str, group: str, resource: str, name: str, verb: str) -> bool:
    rules = [rule for key, item in objects.items() if key.startswith(f"Role/{namespace}/") for rule in item["rules"]]
    bound = any(key.startswith(f"RoleBinding/{namespace}/") for key in objects)
    return bound and any(
        group in rule["apiGroups"]
        and resource in rule["resources"]
        and verb in rule["verbs"]
        and name in rule.get("resourceNames", [name])
        for rule in rules
    )


def _handler(api: KubeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, text = api.answer(self.command, self.path, self.headers.get("Authorization", ""), body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
