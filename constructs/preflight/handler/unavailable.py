"""A fact that could not be looked up."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Stands in for the fact; `reason` says why. A check that needs the fact is "not checked", never "wrong"."""

    reason: str
