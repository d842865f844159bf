"""An OpenAI-compatible endpoint on a free port, whose latencies and faults are known."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class KnownEndpoint:
    """Sends `tokens` chunks after `first_s`, one each `token_s`; `faults` maps a request's number to what goes wrong."""

    def __init__(self) -> None:
        self.first_s, self.token_s, self.tokens = 0.05, 0.01, 5
        self.faults: dict[int, str] = {}
        self.models = ["known"]
        self.prompts: list[str] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def enter(self, prompt: str) -> str | None:
        """Count a request in; the answer is its fault."""
        with self._lock:
            self.prompts.append(prompt)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            return self.faults.get(len(self.prompts))

    def leave(self) -> None:
        with self._lock:
            self._at_once -= 1


def _handler(endpoint: KnownEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            self._json(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in endpoint.models]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fault = endpoint.enter(body["messages"][0]["content"])
            try:
                complete = self._answer(body, fault)
            finally:
                endpoint.leave()
            if complete:  # counted out first, as the client asks its next question at once
                return True

        def _answer(self, body: dict[str, Any], fault: str | None) -> bool:
            if fault == "500":
                self._json(500, {"error": {"message": "the engine is gone", "type": "InternalServerError", "code": 500}})
                return False
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            time.sleep(endpoint.first_s)
            for number in range(min(endpoint.tokens, body["max_tokens"])):
                if number:
                    time.sleep(endpoint.token_s)
                if fault == "cut" and number == 2:
                    return False
                self._chunk({"choices": [{"index": 0, "delta": {"content": "w "}}]})
            words = len(body["messages"][0]["content"].split())
            self._chunk({"choices": [], "usage": {"prompt_tokens": words, "completion_tokens": endpoint.tokens, "total_tokens": 0}})
            return True

        def _chunk(self, content: dict[str, Any]) -> None:
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "known", **content}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

        def _json(self, status: int, content: dict[str, Any]) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler


@pytest.fixture
def endpoint() -> Iterator[KnownEndpoint]:
    known = KnownEndpoint()
    yield known
    known.close()
