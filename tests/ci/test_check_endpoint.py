"""The check that the pipeline runs after each stage, as a real process against a real HTTP server; aws and kubectl are
stand-ins that note how they were called."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from settings import Settings
from stacks.operator_commands import operator_commands

ROOT = Path(__file__).parents[2]
ROLE = "arn:aws:iam::222222222222:role/endpoint-check-us-east-1-ray-llm-multinode"
GOOD = {
    "/v1/models": [200, {"data": [{"id": "qwen3.5-9b"}]}],
    "/v1/chat/completions": [200, {"choices": [{"message": {"role": "assistant", "content": "Earth"}}]}],
}
AWS = """
    import json, os, sys
    with open(os.environ["CALLS"], "a") as calls:
        print(json.dumps(["aws", os.environ.get("AWS_SESSION_TOKEN"), *sys.argv[1:]]), file=calls)
    if sys.argv[1:3] == ["sts", "assume-role"]:
        print("KEY", "SECRET", "TOKEN", sep="\\t")
"""
KUBECTL = """
    import json, os, sys
    from http.server import BaseHTTPRequestHandler, HTTPServer
    with open(os.environ["CALLS"], "a") as calls:
        print(json.dumps(["kubectl", os.environ.get("KUBECONFIG", ""), *sys.argv[1:]]), file=calls)
    answers = json.load(open(os.environ["ANSWERS"]))
    if not answers:
        sys.exit("Error from server (NotFound): services \\"ray-llm-serve-svc\\" not found")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if body:
                with open(os.environ["CALLS"], "a") as calls:
                    print(json.dumps(["request", self.path, json.loads(body)]), file=calls)
            status, answer = answers[self.path]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_POST = do_GET

        def log_message(self, *_):
            pass

    HTTPServer(("127.0.0.1", int(sys.argv[-1].split(":")[0])), Handler).serve_forever()
"""


@pytest.fixture
def check(tmp_path: Path) -> Callable[[dict], subprocess.CompletedProcess[str]]:
    for name, code in (("aws", AWS), ("kubectl", KUBECTL)):
        (tmp_path / name).write_text(f"#!{sys.executable}\n{textwrap.dedent(code)}")
        (tmp_path / name).chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    commands = {command.output: command.text for command in operator_commands(Settings.load(context={}, environ={}))}

    def run(answers: dict, *, deadline_s: int = 60) -> subprocess.CompletedProcess[str]:
        (tmp_path / "answers.json").write_text(json.dumps(answers))
        return subprocess.run(
            [ROOT / ".ci" / "check-endpoint"],
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "CALLS": str(tmp_path / "calls"),
                "ANSWERS": str(tmp_path / "answers.json"),
                "CHECK_ROLE": ROLE,
                "CLUSTER": "ray-llm-multinode",
                "CLUSTER_REGION": "us-east-1",
                "MODEL_ID": "qwen3.5-9b",
                "PORT_FORWARD": commands["PortForwardCommand"].replace("8000:", f"{port}:"),
                "LIST_MODELS": commands["ListModelsCommand"].replace(":8000/", f":{port}/"),
                "DEADLINE_S": str(deadline_s),
                "INTERVAL_S": "0.2",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


def calls(folder: Path) -> list[list]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def test_endpoint_that_answers(check, tmp_path) -> None:
    run = check(GOOD)
    assert (run.returncode, run.stdout) == (0, "qwen3.5-9b answered: Earth\n"), run.stderr
    assume, kubeconfig, forward, request = calls(tmp_path)
    assert assume[:6] == ["aws", None, "sts", "assume-role", "--role-arn", ROLE]
    assert kubeconfig == ["aws", "TOKEN", "eks", "update-kubeconfig", "--name", "ray-llm-multinode", "--region", "us-east-1"]
    assert forward[1].endswith("/kubeconfig")
    assert forward[2:6] == ["port-forward", "-n", "inference", "svc/ray-llm-serve-svc"]
    assert request[2]["model"] == "qwen3.5-9b"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, 'does not answer: .*services "ray-llm-serve-svc" not found'),
        ({**GOOD, "/v1/models": [503, {}]}, "does not answer: .*503"),
        ({**GOOD, "/v1/models": [200, {"data": [{"id": "other"}]}]}, r"serves \['other'\] and not qwen3.5-9b"),
        ({**GOOD, "/v1/chat/completions": [500, {"error": "KV transfer failed"}]}, "not answer a question: .*KV transfer failed"),
        ({**GOOD, "/v1/chat/completions": [200, {"choices": [{"message": {"content": " "}}]}]}, "answered without a text"),
        ({**GOOD, "/v1/chat/completions": [200, {"choices": []}]}, "IndexError"),
    ],
    ids=["no service", "not ready", "other model", "error", "empty", "no choice"],
)
def test_endpoint_that_does_not_answer_fails_the_step(check, answers, message: str) -> None:
    waits = not answers or answers["/v1/models"][0] != 200
    run = check(answers, deadline_s=8 if waits else 60)
    assert run.returncode != 0
    assert run.stdout == ""
    assert re.search(message, run.stderr, re.DOTALL), run.stderr


def test_reasoning_counts_as_an_answer(check) -> None:
    thinking = {"choices": [{"message": {"content": None, "reasoning_content": "The user asks"}}]}
    assert check({**GOOD, "/v1/chat/completions": [200, thinking]}).returncode == 0


def test_check_leaves_no_forwarded_port_behind(check, tmp_path) -> None:
    check(GOOD)
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            commands.append(path.read_bytes())
    assert str(Path(sys.executable)).encode() in b"".join(commands), "this test would see it"
    assert not [line for line in commands if str(tmp_path / "kubectl").encode() in line]
