"""What one check of the preflight says."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`status` is "ok", "wrong" or "not checked"; `detail` is a sentence, which for "wrong" names the way out."""

    check: str
    status: str
    detail: str
