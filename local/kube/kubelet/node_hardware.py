"""The devices and the disk of one node, as files."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.efa_instance_type import EfaInstanceType, efa_instance_types


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHardware:
    """Simulated after the catalog: as many GPUs and EFA interfaces as the instance type has; none of a type it does not know.

    `infiniband` is what pods see as /sys/class/infiniband: a counter of sent bytes for each EFA interface, which is an
    ordinary file here and counts what the stand-in engine says that it sent.
    """

    folder: Path
    instance_type: EfaInstanceType | None

    @classmethod
    def of_node(cls, node: Mapping[str, Any], *, folder: Path) -> NodeHardware:
        """Of a Node object; the files are made."""
        name = node["metadata"].get("labels", {}).get("node.kubernetes.io/instance-type", "")
        made = cls(folder=folder, instance_type=efa_instance_types().get(name))
        made._make()
        return made

    @property
    def infiniband(self) -> Path:
        """The folder of the EFA devices."""
        return self.folder / "infiniband"

    def host_path(self, path: str) -> Path:
        """A folder of the node's disk."""
        found = self.folder / "disk" / path.lstrip("/")
        found.mkdir(parents=True, exist_ok=True)
        return found

    @property
    def accelerator_type(self) -> str | None:
        """Ray's name of the node's GPUs."""
        return self.instance_type.ray_accelerator_type if self.instance_type else None

    def devices(self) -> dict[str, int]:
        """Number of devices by resource name, of the device plugins that have reported here: 0 for one that has ended."""
        found = {}
        for path in sorted(self.host_path("/var/lib/kubelet/device-plugins").glob("*.json")):
            try:
                with path.open() as file:
                    reported = json.load(file)
                    found[reported["resource"]] = len(reported["devices"]) if _locked(file) else 0
            except (OSError, ValueError):
                # It is being written.
                continue
        return found

    def _make(self) -> None:
        self.infiniband.mkdir(parents=True, exist_ok=True)
        devices = self.host_path("/dev")
        (devices / "infiniband").mkdir(exist_ok=True)
        if not self.instance_type:
            return
        for number in range(self.instance_type.gpu_count):
            (devices / f"nvidia{number}").touch()
        for number in range(self.instance_type.efa_interfaces):
            (devices / "infiniband" / f"uverbs{number}").touch()
            counters = self.infiniband / f"rdmap{number}s6" / "ports" / "1" / "hw_counters"
            counters.mkdir(parents=True, exist_ok=True)
            if not (counters / "tx_bytes").exists():
                (counters / "tx_bytes").write_text("0\n")


def _locked(file: Any) -> bool:
    """Whether its device plugin lives."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
