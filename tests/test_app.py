"""app.py through the real CLI, as a person runs it."""

import filecmp
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CDK = ROOT / "node_modules" / ".bin" / "cdk"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No credentials and no configuration; jsii fills its cache here once."""
    return tmp_path_factory.mktemp("home")


def synth(home: Path, output: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CDK, "synth", "--quiet", "--output", output, *arguments],
        cwd=ROOT,
        env={
            "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
            "HOME": str(home),
            "AWS_EC2_METADATA_DISABLED": "true",
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_same_settings_give_the_same_bytes(home: Path, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        run = synth(home, tmp_path / folder, MAX_MODEL_LEN="2048")
        assert run.returncode == 0, run.stderr
    names = sorted(path.name for kind in ("template", "assets") for path in (tmp_path / "one").glob(f"*.{kind}.json"))
    assert len(names) == 6
    assert filecmp.cmpfiles(tmp_path / "one", tmp_path / "two", names, shallow=False)[0] == names


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [(("-c", "gpu_node_type=g6.xlarge"), {"VERIFY": "maybe"}), ((), {"GPU_NODE_TYPE": "g6.xlarge", "VERIFY": "maybe"})],
)
def test_bad_settings_stop_synth_with_every_problem_and_no_traceback(home: Path, tmp_path: Path, arguments, environ) -> None:
    run = synth(home, tmp_path / "out", *arguments, **environ)
    assert run.returncode != 0
    assert "2 settings are not usable:" in run.stderr
    assert "GPU_NODE_TYPE=g6.xlarge" in run.stderr
    assert "VERIFY=maybe" in run.stderr
    assert "Traceback" not in run.stderr


def test_warning_appears_once(home: Path, tmp_path: Path) -> None:
    run = synth(home, tmp_path / "out")
    assert (run.stdout + run.stderr).count("no GPUDirect RDMA") == 1
