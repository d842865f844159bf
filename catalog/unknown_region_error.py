"""The error for a region without a known image registry."""

from __future__ import annotations


class UnknownRegionError(Exception):
    """A region has no known registry; its text says which registry and what regions have one, not the region itself."""

    def __init__(self, *, registry: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no {registry} registry is known there; known regions are {', '.join(known)}")
        self.known = known
