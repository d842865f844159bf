"""The counters of simulated EFA devices."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path


class NoEfaDeviceError(Exception):
    """libfabric's efa provider was asked for, and there is no device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EfaCounters:
    """`folder` is what a pod sees as /sys/class/infiniband, with files in the place of the kernel's counters."""

    folder: Path

    @classmethod
    def of_environment(cls) -> EfaCounters | None:
        """EFA_DEVICES names the folder; None where nothing simulates devices."""
        folder = os.environ.get("EFA_DEVICES")
        return cls(folder=Path(folder)) if folder else None

    def require(self) -> None:
        """Raises NoEfaDeviceError."""
        if not self._files():
            raise NoEfaDeviceError(f"NIXL_ERR_BACKEND: fi_getinfo: no EFA device in {self.folder}")

    def sent(self, count: int) -> None:
        """Raise the first device's counter by so many bytes."""
        for path in self._files()[:1]:
            with path.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                total = int(file.read()) + count
                file.seek(0)
                file.write(f"{total}\n")

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*/ports/1/hw_counters/tx_bytes"))
