"""Text that may stand in an event or a log."""

import re

# CloudFormation takes 4 KB as a whole, and the provider framework adds to it.
LIMIT = 2800

_SECRETS = [
    re.compile(pattern)
    for pattern in (
        r"hf_[A-Za-z0-9]{6,}",
        r"(?:AKIA|ASIA)[A-Z0-9]{12,}",
        r"k8s-aws-v1\.[A-Za-z0-9_-]+",
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
        r"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]+",
        r"(?i)(?<=x-amz-)(?:signature|credential|security-token)=[^&\s\"']+",
        r"(?i)(?:token|secret|password|passwd|api[-_]?key)[\"']?\s*[=:]\s*[\"']?[^\s\"',;}]+",
    )
]


def safe(text, limit=LIMIT):
    """`text` without anything that looks like a secret, cut in the middle to `limit` characters."""
    text = str(text)
    for pattern in _SECRETS:
        text = pattern.sub("[removed]", text)
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def one_line(text, limit=LIMIT):
    """The same on one line."""
    return safe(" ".join(str(text).split()), limit)
