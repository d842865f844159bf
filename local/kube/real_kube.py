"""What an emulator needs so that its EKS clusters are real: programs, a Helm repository, an environment."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local.kube.binaries import LAYER_PROGRAMS, KubeBinaries
from local.kube.chart_repository import ChartRepository


@dataclass(slots=True, kw_only=True)
class RealKube:
    """Everything it writes is in `folder`, the emulator's."""

    folder: Path
    addresses: tuple[str, ...]
    charts: ChartRepository = field(init=False)

    def start(self, *, stand_ins: Path) -> tuple[list[str], Mapping[str, str]]:
        """Folders for the PATH of the handlers, and the emulator's environment. Raises BinariesMissing."""
        binaries = KubeBinaries.find()
        programs = self.folder / "bin"
        programs.mkdir()
        # Links, because the folder of the programs may hold others (a kubectl of setup-envtest).
        for name in LAYER_PROGRAMS:
            (programs / name).symlink_to(binaries.path(name))
        (programs / "aws").write_text(f'#!/bin/sh\nexec "{stand_ins / "aws"}" "$@"\n')
        (programs / "aws").chmod(0o755)
        self.charts = ChartRepository(binaries=binaries, folder=self.folder / "charts")
        self.charts.start()
        return [str(programs)], {
            "LOCAL_KUBE": "real",
            "LOCAL_KUBE_ADDRESSES": ",".join(self.addresses),
            "EKS_BASE_PORT": str(free_port()),
        }

    def stop(self) -> None:
        """The clusters end with the emulator's process group."""
        self.charts.stop()


def free_port() -> int:
    """A port of the loopback that nothing listened on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
