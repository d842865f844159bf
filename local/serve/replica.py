"""Where a replica runs and how its engine is addressed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# vLLM's scheduler says so once; Ray's engine id ends in host and port of the side channel.
_ENGINE = re.compile(r"Initializing NIXL Scheduler (?P<id>(?P<own>\S+?)-(?P<host>\d+\.\d+\.\d+\.\d+)-(?P<port>\d+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One running replica; `engine_id` and `side_channel` are None where there is no engine."""

    deployment: str
    replica_id: str
    state: str
    node_id: str
    node_ip: str
    actor_id: str
    pid: int
    engine_id: str | None
    side_channel: str | None

    @classmethod
    def all(cls, *, details: Mapping[str, Any], logs: Path) -> tuple[Replica, ...]:
        """Every replica of the Serve details, engines read from the session's logs."""
        return tuple(_replicas(details=details, logs=logs))


def _replicas(*, details: Mapping[str, Any], logs: Path) -> Iterator[Replica]:
    for application in details["applications"].values():
        for name, deployment in application["deployments"].items():
            for replica in deployment["replicas"]:
                engine = _engine(logs=logs, pid=replica["pid"])
                yield Replica(
                    deployment=name,
                    replica_id=replica["replica_id"],
                    state=replica["state"],
                    node_id=replica["node_id"],
                    node_ip=replica["node_ip"],
                    actor_id=replica["actor_id"],
                    pid=replica["pid"],
                    engine_id=engine["id"] if engine else None,
                    side_channel=f"{engine['host']}:{engine['port']}" if engine else None,
                )


def _engine(*, logs: Path, pid: int | None) -> re.Match[str] | None:
    """The engine's output is in the log of the worker process that holds the replica."""
    for path in logs.glob(f"worker-*-{pid}.*"):
        if found := _ENGINE.search(path.read_text(encoding="utf-8", errors="replace")):
            return found
    return None
