"""The client against a real TLS server, and the token against what STS would be asked."""

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from constructs.verification.handler import kubernetes_api
from constructs.verification.handler.cluster_error import ClusterError
from constructs.verification.handler.kubernetes_api import KubernetesApi


class Server:
    """Answers by path: a list of (status, body) used up one by one, the last one for good."""

    def __init__(self, folder: Path) -> None:
        key, self.certificate = folder / "key.pem", folder / "cert.pem"
        name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
        subprocess.run(
            ["openssl", "req", "-x509", *curve, *name, "-keyout", key, "-out", self.certificate], check=True, capture_output=True
        )
        self.answers: dict[str, list[tuple[int, str]]] = {}
        self.seen: list[tuple[str, str, str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                server.seen.append((self.command, self.path, self.headers.get("Authorization", ""), body))
                left = server.answers.get(self.path, [(404, "no such path")])
                status, text = left.pop(0) if len(left) > 1 else left[0]
                if not status:
                    self.connection.close()
                    return
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.endpoint = f"https://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("tls"))
    yield server
    server.http.shutdown()


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.answers, shared_server.seen = {}, []
    return shared_server


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def api(server: Server, slept: list[float]) -> KubernetesApi:
    return KubernetesApi(
        endpoint=server.endpoint, certificate_authority=server.certificate.read_text(), token="t0k3n", sleep=slept.append
    )


def test_a_get_carries_the_token_over_verified_tls(server, api) -> None:
    server.answers["/a"] = [(200, '{"x": 1}')]
    assert api.json("/a") == {"x": 1}
    assert server.seen == [("GET", "/a", "Bearer t0k3n", "")]


def test_a_certificate_of_someone_else_is_refused(server, tmp_path, slept) -> None:
    other = Server(tmp_path)
    other.http.shutdown()
    api = KubernetesApi(
        endpoint=server.endpoint, certificate_authority=other.certificate.read_text(), token="t", sleep=slept.append
    )
    with pytest.raises(ClusterError, match="CERTIFICATE_VERIFY_FAILED"):
        api.text("/a")
    assert server.seen == []


def test_an_unreadable_authority_is_a_cluster_error() -> None:
    with pytest.raises(ClusterError, match="certificate authority is not readable"):
        KubernetesApi(
            endpoint="https://x", certificate_authority="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", token=""
        )


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 0])
def test_reads_are_repeated_a_bounded_number_of_times(server, api, slept, status: int) -> None:
    server.answers["/a"] = [(status, ""), (status, ""), (200, "good")]
    assert api.text("/a") == "good"
    assert slept == [1, 2]
    server.answers["/a"] = [(status, "later")]
    with pytest.raises(ClusterError) as caught:
        api.text("/a")
    assert caught.value.status == status
    assert len(server.seen) == 6


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_is_not_repeated(server, api, slept, status: int) -> None:
    server.answers["/a"] = [(status, "no, hf_abcdefghijkl")]
    with pytest.raises(ClusterError, match=rf"GET /a: {status} no, \[removed\]") as caught:
        api.text("/a")
    assert caught.value.status == status
    assert slept == []


def test_no_json_is_a_cluster_error(server, api) -> None:
    server.answers["/a"] = [(200, "<html>")]
    with pytest.raises(ClusterError, match="GET /a: no JSON"):
        api.json("/a")


def test_deleting_what_is_gone_is_fine(server, api) -> None:
    server.answers["/gone"], server.answers["/no"], server.answers["/yes"] = [(404, "")], [(403, "")], [(200, "")]
    api.delete("/gone")
    api.delete("/yes")
    with pytest.raises(ClusterError):
        api.delete("/no")
    assert [method for method, *_ in server.seen] == ["DELETE"] * 3


def test_a_post_streams_lines_and_is_never_repeated(server, api, slept) -> None:
    server.answers["/p"] = [(200, "data: a\r\n\ndata: b\n"), (503, "")]
    assert list(api.lines("/p", {"k": 1}, timeout_s=5)) == ["data: a", "", "data: b"]
    assert server.seen[0][3] == '{"k": 1}'
    with pytest.raises(ClusterError, match="POST /p: 503"):
        list(api.lines("/p", {}, timeout_s=5))
    assert slept == []


def test_a_stream_that_breaks_is_a_cluster_error(api, monkeypatch) -> None:
    class Broken:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def __iter__(self):
            yield b"data: a\n"
            raise ConnectionResetError

    monkeypatch.setattr(kubernetes_api.urllib.request, "urlopen", lambda *_, **__: Broken())
    lines = api.lines("/p", {}, timeout_s=5)
    assert next(lines) == "data: a"
    with pytest.raises(ClusterError, match="POST /p: ConnectionResetError"):
        next(lines)


def test_a_read_that_breaks_is_repeated(api, slept, monkeypatch) -> None:
    class Broken:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def read(self, _):
            raise ConnectionResetError

    monkeypatch.setattr(kubernetes_api.urllib.request, "urlopen", lambda *_, **__: Broken())
    with pytest.raises(ClusterError, match="GET /a: ConnectionResetError"):
        api.text("/a")
    assert slept == [1, 2]


def test_strict_checks_that_eks_authorities_fail_are_off(api) -> None:
    assert not api._context.verify_flags & ssl.VERIFY_X509_STRICT
    assert api._context.verify_mode == ssl.CERT_REQUIRED
    assert api._context.check_hostname


@pytest.fixture
def credentials(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.parametrize(
    ("region", "host"), [("sa-east-1", "sts.sa-east-1.amazonaws.com"), ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn")]
)
def test_token_is_a_signed_question_for_the_caller_that_names_the_cluster(credentials, region: str, host: str) -> None:
    token = kubernetes_api.eks_token("my-cluster", region)
    assert token.startswith("k8s-aws-v1.")
    encoded = token.removeprefix("k8s-aws-v1.")
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    query = parse_qs(url.query)
    assert (url.scheme, url.netloc) == ("https", host)
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert query["X-Amz-Expires"] == ["60"]
    assert f"/{region}/sts/" in query["X-Amz-Credential"][0]
    assert "secret" not in url.query


class Eks:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self, service: str, region: str) -> "Eks":
        assert (service, region) == ("eks", "sa-east-1")
        return self

    def describe_cluster(self, *, name: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_api_of_a_described_cluster(credentials, server) -> None:
    authority = base64.b64encode(server.certificate.read_bytes()).decode()
    described = {"cluster": {"endpoint": server.endpoint, "certificateAuthority": {"data": authority}}}
    server.answers["/a"] = [(200, "[]")]
    assert KubernetesApi.of_cluster("c", region="sa-east-1", client=Eks(described)).json("/a") == []
    assert server.seen[0][2].startswith("Bearer k8s-aws-v1.")


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "DescribeCluster"), 404, "ResourceNotFoundException"),
        (ClientError({"Error": {"Code": "ThrottlingException"}}, "DescribeCluster"), 0, "ThrottlingException"),
        (NoCredentialsError(), 0, "NoCredentialsError"),
        ({"cluster": {"status": "CREATING"}}, 0, "KeyError"),
    ],
)
def test_a_cluster_that_eks_does_not_describe(answer: Any, status: int, text: str) -> None:
    with pytest.raises(ClusterError, match=text) as caught:
        KubernetesApi.of_cluster("c", region="sa-east-1", client=Eks(answer))
    assert caught.value.status == status


def test_clients_wait_a_bounded_time() -> None:
    config = kubernetes_api.aws_client("eks", "sa-east-1").meta.config
    assert (config.connect_timeout, config.read_timeout) == (5, 10)
    assert json.dumps(config.retries)
