"""CPU seconds and peak memory of `cdk synth`: this application against an empty Python CDK application.

Both run the same CLI with the same flags, alternately, in one go, because the machine may be busy with something else.
The ratio is of CPU seconds of the whole process tree, pair by pair, and the last line gives its median.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
CDK = ROOT / "node_modules" / ".bin" / "cdk"
PAIRS = 5
EMPTY_APP = "from aws_cdk import App, Stack\n\napp = App()\nStack(app, 'Empty')\napp.synth()\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One synth. `largest_mib` is the peak of the largest process, `tree_mib` of all processes together."""

    cpu_s: float
    wall_s: float
    largest_mib: float
    tree_mib: float


def synth(directory: Path, output: Path) -> Cost:
    """Run the CLI once and measure its process tree."""
    environ = {**os.environ, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(
        [CDK, "synth", "--quiet", "--output", output],
        cwd=directory,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    peaks = {"largest": 0.0, "tree": 0.0}
    watcher = threading.Thread(target=watch, args=(process, peaks), daemon=True)
    watcher.start()
    _, stderr = process.communicate()
    watcher.join()
    if process.returncode:
        sys.exit(f"cdk synth failed in {directory}:\n{stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(
        cpu_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        wall_s=time.monotonic() - start,
        largest_mib=peaks["largest"],
        tree_mib=peaks["tree"],
    )


def watch(process: subprocess.Popen, peaks: dict[str, float]) -> None:
    """Note the resident memory of the tree every 20 ms; pages that processes share count once (PSS)."""
    while process.poll() is None:
        sizes = [size for pid in tree(process.pid) if (size := memory_mib(pid))]
        peaks["largest"] = max([peaks["largest"], *sizes])
        peaks["tree"] = max(peaks["tree"], sum(sizes))
        time.sleep(0.02)


def tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(found for child in children for found in tree(int(child)))]


def memory_mib(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty"
        empty.mkdir()
        (empty / "app.py").write_text(EMPTY_APP)
        (empty / "cdk.json").write_text(json.dumps({"app": "python3 app.py"}))
        runs: dict[str, list[Cost]] = {"empty app": [], "this app": []}
        directories = {"empty app": empty, "this app": ROOT}
        for directory in directories.values():  # warm caches, so that the first pair is like the others
            synth(directory, Path(folder) / "out")
        for _ in range(PAIRS):
            for name, directory in directories.items():
                runs[name].append(synth(directory, Path(folder) / "out"))
    print(f"{'median of ' + str(PAIRS):<14}{'CPU s':>8}{'wall s':>8}{'largest MiB':>13}{'tree MiB':>10}")
    for name, costs in runs.items():
        medians = [statistics.median([getattr(cost, field) for cost in costs]) for field in Cost.__slots__]
        print(f"{name:<14}{medians[0]:>8.2f}{medians[1]:>8.2f}{medians[2]:>13.0f}{medians[3]:>10.0f}")
    ratios = [mine.cpu_s / base.cpu_s for base, mine in zip(runs["empty app"], runs["this app"], strict=True)]
    print(f"ratios of the pairs: {', '.join(f'{ratio:.2f}' for ratio in sorted(ratios))}")
    print(f"RATIO={statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
