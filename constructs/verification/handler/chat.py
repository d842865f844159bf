"""One streamed chat completion through the API server."""

import json
import time

from .cluster_error import ClusterError
from .dig import dig, items
from .prompts import ANSWER_TOKENS

SERVE_PORT = 8000
TIMEOUT_S = 90


def chat(api, wanted, prompt, *, clock=time.monotonic):
    """(answer, seconds to its first token). ClusterError where the endpoint gives no answer."""
    service = f"{wanted.ray_service}-serve-svc:{SERVE_PORT}"
    body = {
        "model": wanted.model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0,
        "seed": 0,
        "stream": True,
        # Templates that know no such switch ignore it.
        "chat_template_kwargs": {"enable_thinking": False},
    }
    started, first, parts = clock(), None, []
    path = f"/api/v1/namespaces/{wanted.namespace}/services/{service}/proxy/v1/chat/completions"
    for line in api.lines(path, body, timeout_s=TIMEOUT_S):
        piece = _text(line)
        if piece and first is None:
            first = clock() - started
        parts.append(piece)
        if clock() - started > TIMEOUT_S:
            raise ClusterError(f"the chat completion took longer than {TIMEOUT_S} seconds")
    return "".join(parts), first or 0.0


def _text(line):
    """What an event of the stream adds to the answer."""
    data = line.removeprefix("data:").strip()
    if data in ("", "[DONE]"):
        return ""
    try:
        event = json.loads(data)
    except ValueError:
        return ""
    if dig(event, "error"):
        said = dig(event, "error", "message", default="")[:300]
        raise ClusterError(f"the chat completion ended with an error: {said}", status=500)
    for choice in items(event, "choices"):
        delta = dig(choice, "delta", default={})
        return "".join(dig(delta, name, default="") for name in ("reasoning_content", "reasoning", "content"))
    return ""
