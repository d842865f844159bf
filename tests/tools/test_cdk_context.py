"""The context of cdk.json as the application gets it."""

import json
from pathlib import Path

import pytest

from settings import Settings
from tools.cdk_context import cdk_context


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"app": "x"}, {}),
        ({"context": {"stages": {"dev": {"cluster_name": None, "nat_gateways": 2}, "prod": None}, "region": None}},
         {"stages": {"dev": {"nat_gateways": 2}}}),
    ],
)  # fmt: skip
def test_null_is_nothing(tmp_path: Path, written: dict, read: dict) -> None:
    (tmp_path / "cdk.json").write_text(json.dumps(written))
    assert cdk_context(tmp_path / "cdk.json") == read


def test_the_projects_own_context_is_usable() -> None:
    assert Settings.load(context=cdk_context(), environ={}).stage_is_configured
