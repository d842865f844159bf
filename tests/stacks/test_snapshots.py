"""One snapshot per stack at default settings: a change of any resource shows in review.

`make snapshots` writes them anew. Hashes of assets are masked, because they change with every library version.
"""

import json
import os
import re
from pathlib import Path

import pytest

from tests.conftest import STACKS

SNAPSHOTS = Path(__file__).parent / "snapshots"


def masked(template: dict) -> str:
    text = json.dumps(template, indent=1, sort_keys=True)
    return re.sub(r"[0-9a-f]{64}", "HASH", text) + "\n"


@pytest.mark.parametrize("stack", STACKS)
def test_template_is_as_reviewed(synth, stack: str) -> None:
    path = SNAPSHOTS / f"{stack}.json"
    actual = masked(synth()[stack])
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        path.write_text(actual)
    assert actual == path.read_text(), "run `make snapshots` and review the difference"
