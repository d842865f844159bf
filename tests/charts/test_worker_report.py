"""The report beside the worker: counters and backend out of a node's files, over real HTTP."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from charts.scripts import worker_report
from tests.waiting import until

ROOT = Path(__file__).parents[2]


def counter(folder: Path, device: str, value: int) -> None:
    path = folder / device / "ports" / "1" / "hw_counters"
    path.mkdir(parents=True)
    (path / "tx_bytes").write_text(f"{value}\n")


def log(folder: Path, name: str, text: str, *, age: int) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age, time.time() - age))


def test_counters_by_device(tmp_path: Path) -> None:
    counter(tmp_path, "rdmap16s27", 12)
    counter(tmp_path, "rdmap0s6", 17301504)
    assert worker_report.efa_tx_bytes(tmp_path) == {"rdmap0s6": 17301504, "rdmap16s27": 12}


def test_a_node_without_efa_has_no_counters(tmp_path: Path) -> None:
    assert worker_report.efa_tx_bytes(tmp_path / "absent") == {}
    assert worker_report.nixl_backends(tmp_path / "absent") == []


def test_the_log_written_last_names_the_backend(tmp_path: Path) -> None:
    """After KV_BACKEND changed in place, the ended engine's log is still there."""
    log(tmp_path, "worker-a.err", "NIXL INFO Backend UCX was instantiated\n", age=500)
    log(tmp_path, "serve/replica.log", "x\nNIXL INFO Backend LIBFABRIC was instantiated\n", age=5)
    log(tmp_path, "raylet.out", "nothing about it\n", age=0)
    log(tmp_path, "notes.txt", "Backend UCX was instantiated\n", age=0)
    assert worker_report.nixl_backends(tmp_path) == ["LIBFABRIC"]


@contextmanager
def running() -> Iterator[subprocess.Popen[bytes]]:
    """The report, once it answers; another one on its port is not taken for it."""
    process = subprocess.Popen([sys.executable, ROOT / "charts/scripts/worker_report.py"])
    try:
        until(lambda: process.poll() is not None or ask(), "it answers")
        assert process.poll() is None, "it ended: is its port free?"
        yield process
    finally:
        process.kill()
        process.wait()


def ask() -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker_report.PORT}/", timeout=30) as response:
            return json.load(response)
    except OSError:
        return None


def test_it_answers_over_http() -> None:
    with running():
        report = ask()
    assert report and set(report) == {"efa_tx_bytes", "nixl_backends"}


def test_it_ends_when_it_is_told_to() -> None:
    """A first process without a handler would go on until the pod's grace is over."""
    with running() as process:
        process.terminate()
        assert process.wait(timeout=10) == 0
