"""One thing that the evidence shows to be wrong."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`part` is "placement", "answer" or "transport"."""

    part: str
    text: str
