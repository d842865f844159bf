"""One replica of the running application, as the table shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# vLLM's NIXL connector prints it at engine start; Ray makes the id of <random>-<node address>-<side-channel port>.
_NIXL_LINE = re.compile(r"Initializing NIXL worker (\S+?)[\s.]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """`engine_id` and `side_channel_port` are empty for the HTTP ingress, which has no engine."""

    deployment: str
    replica: str
    state: str
    group: str
    address: str
    pid: int
    engine_id: str
    side_channel_port: str

    @classmethod
    def of(cls, *, details: Mapping[str, Any], groups: Mapping[str, str], logs: Path) -> list[ReplicaRow]:
        """Every replica in Serve's details; engine ids are read from the replicas' own output in `logs`."""
        return sorted(_rows(details, groups, logs), key=lambda row: (row.deployment, row.address, row.replica))


def table(rows: list[ReplicaRow]) -> str:
    """The rows in aligned columns."""
    head = ("DEPLOYMENT", "REPLICA", "STATE", "NODE", "ADDRESS", "ENGINE ID", "NIXL PORT")
    lines = [
        head,
        *((r.deployment, r.replica, r.state, r.group, r.address, r.engine_id or "-", r.side_channel_port or "-") for r in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def _rows(details: Mapping[str, Any], groups: Mapping[str, str], logs: Path) -> Iterator[ReplicaRow]:
    for application in details["applications"].values():
        for deployment in application["deployments"].values():
            for replica in deployment["replicas"]:
                engine_id = _engine_id(logs, replica.get("worker_id"))
                yield ReplicaRow(
                    deployment=deployment["name"],
                    replica=replica["replica_id"],
                    state=replica["state"],
                    group=groups.get(replica.get("node_id") or "", "?"),
                    address=replica.get("node_ip") or "?",
                    pid=replica.get("pid") or 0,
                    engine_id=engine_id,
                    side_channel_port=engine_id.rpartition("-")[2],
                )


def _engine_id(logs: Path, worker_id: str | None) -> str:
    outputs = sorted(logs.glob(f"worker-{worker_id}-*")) if worker_id else []
    found = [match for path in outputs for match in _NIXL_LINE.findall(path.read_text(errors="replace"))]
    return found[0] if found else ""
