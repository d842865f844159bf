"""Waiting for what comes about by itself, as no test may take it to be there already."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(done: Callable[[], Found], what: str | Callable[[], str], seconds: float = 60) -> Found:
    """What `done` returns once it is true; if it is not within `seconds`, the test fails and says `what` it waited for."""
    deadline = time.monotonic() + seconds
    while True:
        # A machine that stood still meanwhile gets one more look.
        last = time.monotonic() > deadline
        if found := done():
            return found
        assert not last, f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}"
        time.sleep(0.1)
