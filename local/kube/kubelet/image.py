"""What stands for a container image on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A container sees the machine's own files read-only; the image says what it sees besides.

    Attributes:
        entrypoint: the command of a container that names none.
        environment: variables that a container's own ones replace.
        user: the user of the real image, 0 for root. The process here is the sandbox's root in any case.
        programs: folders and files that appear at their own place, also where that is hidden (/tmp, /run).
        files: file of this machine by its place in the container.
        node_folders: folder of the node by its place in the container, as a hostPath volume would mount it.
        reads_accelerator: whether its Ray looks for the type of the GPUs, which only a GPU could tell.
    """

    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int = 0
    programs: tuple[Path, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    node_folders: Mapping[str, str] = field(default_factory=dict)
    reads_accelerator: bool = False
