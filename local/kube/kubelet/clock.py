"""Times as the Kubernetes API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """metav1.Time, seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_micro() -> str:
    """metav1.MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
