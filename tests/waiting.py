"""Waiting for what comes about by itself, as no test may take it to be there already."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(done: Callable[[], Found], what: str, seconds: float = 60) -> Found:
    """What `done` returns once it is true; the test fails, naming `what`, if it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.1)
    return found
