"""CPU seconds of `python app.py` with a pipeline of three stages against one of one stage.

Run alternately, because the machine may be busy with something else; the last line is the median of the pairs' ratios.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.pipeline_rehearsal import SOURCE

ROOT = Path(__file__).parent.parent
PAIRS = 5
STAGES = {
    "dev": {"region": "us-east-1", "account": "111111111111"},
    "test": {"region": "us-east-1", "account": "222222222222"},
    "prod": {"region": "us-east-1", "account": "333333333333"},
}


def synth(count: int, folder: Path) -> float:
    output = folder / f"cdk.out.{count}"
    shutil.rmtree(output, ignore_errors=True)
    context = json.loads((ROOT / "cdk.json").read_text())["context"] | {"stages": dict(list(STAGES.items())[:count])}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**os.environ, **SOURCE, "CDK_CONTEXT_JSON": json.dumps(context), "CDK_OUTDIR": str(output)},
        stderr=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    stages = sorted(path.name for path in output.glob("assembly-*"))
    if len(stages) != count:
        sys.exit(f"{count} stages were to be synthesized and {stages} were.")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    ratios, costs, start = [], [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        synth(1, Path(folder))  # warm caches
        for _ in range(PAIRS):
            one, three = (synth(count, Path(folder)) for count in (1, 3))
            costs.append((one, three))
            ratios.append(three / one)
    medians = [statistics.median(column) for column in zip(*costs, strict=True)]
    print(
        f"{PAIRS} pairs in {time.monotonic() - start:.0f} s; one stage {medians[0]:.2f} CPU s, three stages {medians[1]:.2f} CPU s"
    )
    print(f"ratios of the pairs: {', '.join(f'{ratio:.2f}' for ratio in sorted(ratios))}")
    print(f"RATIO={statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
