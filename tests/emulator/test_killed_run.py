"""A run that was killed half-way."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from local.account import Account
from local.emulator import ROOT, Emulator, living
from tests.waiting import until

NAME = "killed"
DEPLOYING_WITHIN_SECONDS = 60


@pytest.fixture(scope="module")
def orphan():
    """The process id of an emulator whose run was killed while it was deploying."""
    left = Emulator(name=NAME)
    with left:  # clean up after an earlier test run
        pass
    environment = {**os.environ, "REGION": "sa-east-1"}
    run = subprocess.Popen(
        [sys.executable, "-m", "local.demo", NAME],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        until(
            lambda: any((left.folder / "tmp").glob("ministack-lambda*")) or run.poll() is not None,
            "the run comes to its first handler",
            DEPLOYING_WITHIN_SECONDS,
        )
        assert run.poll() is None, "the run ended before it came to its first handler"
        pid = int((left.folder / "pid").read_text())
        with pytest.raises(RuntimeError, match="another run is in progress"), left:
            pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    return pid


def test_next_run_ends_the_orphan_and_starts_clean(orphan):
    assert living(group=orphan), "nothing was left to clean: the test shows nothing"
    with Emulator(name=NAME) as fresh:
        assert living(group=orphan) == []
        account = Account(emulator=fresh)
        assert account.client("cloudformation").describe_stacks()["Stacks"] == []
        assert not any(fresh.kube_state.iterdir())
        pid = int((fresh.folder / "pid").read_text())
        assert living(group=pid)
    assert living(group=pid) == []
