"""A config for which there are too few nodes. The last file of the tier on the shared cluster, see below."""

from __future__ import annotations

import time

import pytest
from running_service import RunningService

from local.serve.serve_api import NotRunningError
from tests.waiting import until


def decode_states(running: RunningService) -> list[str]:
    """Empty while Ray builds the application anew."""
    [application] = running.api.details()["applications"].values()
    decode = [part for name, part in application["deployments"].items() if name.startswith("Decode:")]
    return [replica["state"] for part in decode for replica in part["replicas"]]


def test_is_reported_while_the_old_replicas_answer(running: RunningService) -> None:
    """Reported with what is missing, not waited for; going back works at once for requests.

    Ray takes a replica that found no place through the whole graceful shutdown (600 s here) before it forgets it, and
    shows the application as DEPLOYING until then. No test waits for that, so none that waits for RUNNING may follow.
    """
    began = time.monotonic()
    with pytest.raises(NotRunningError, match="to be scheduled") as report:
        running.apply(running.changed(decode=3))
    assert time.monotonic() - began < 90, "Ray's start-up timeout would have ended it, not the report"
    assert "pd_decode" in str(report.value)
    assert running.ask("still there") == "You said: still there"

    running.api.deploy(running.service.serve_config)
    until(lambda: "STARTING" not in decode_states(running) and "RUNNING" in decode_states(running), "the old number runs")
    assert running.ask("back again") == "You said: back again"
