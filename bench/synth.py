"""CPU seconds and peak memory of `cdk synth`: this application against an empty Python CDK application.

Both run the same CLI with the same flags, alternately, in one go, because the machine may be busy with something else.
Ratios are of CPU seconds of the whole process tree, pair by pair. They are given twice: with the flags that a person
types (the empty app then runs the library's validation pass, which this app leaves to its tests), and with the pass
switched off for both. The last line is the median of the first.
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


def synth(directory: Path, output: Path, flags: tuple[str, ...]) -> Cost:
    """Run the CLI once and measure its process tree."""
    environ = {**os.environ, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(
        [CDK, "synth", "--quiet", "--output", output, *flags],
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
        directories = {"empty app": empty, "this app": ROOT}
        for directory in directories.values():  # warm caches, so that the first pair is like the others
            synth(directory, Path(folder) / "out", ())
        without = compare(directories, Path(folder) / "out", ("--no-validation",))
        plain = compare(directories, Path(folder) / "out", ())
    print(f"RATIO_WITHOUT_VALIDATION={without:.2f}")
    print(f"RATIO={plain:.2f}")


def compare(directories: dict[str, Path], output: Path, flags: tuple[str, ...]) -> float:
    """The median ratio of this app to the empty one, after a table of medians."""
    runs: dict[str, list[Cost]] = {name: [] for name in directories}
    for _ in range(PAIRS):
        for name, directory in directories.items():
            runs[name].append(synth(directory, output, flags))
    print(f"cdk synth --quiet {' '.join(flags)}".rstrip() + f", medians of {PAIRS}")
    print(f"{'':<12}{'CPU s':>8}{'wall s':>8}{'largest MiB':>13}{'tree MiB':>10}")
    for name, costs in runs.items():
        cpu, wall, largest, whole = (statistics.median([getattr(cost, field) for cost in costs]) for field in Cost.__slots__)
        print(f"{name:<12}{cpu:>8.2f}{wall:>8.2f}{largest:>13.0f}{whole:>10.0f}")
    ratios = sorted(mine.cpu_s / base.cpu_s for base, mine in zip(*runs.values(), strict=True))
    print(f"ratios of the pairs: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    return statistics.median(ratios)


if __name__ == "__main__":
    main()
