"""The Kubernetes versions: dates, support and kubectl layers that agree with each other."""

import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from catalog.kubernetes_version import KubernetesVersion, kubernetes_versions

VERSIONS = kubernetes_versions()


def minor(text: str) -> int:
    return int(text.partition(".")[2])


@pytest.mark.parametrize("row", VERSIONS.values(), ids=VERSIONS)
def test_row_is_consistent(row: KubernetesVersion) -> None:
    assert VERSIONS[row.version] is row
    assert timedelta(days=364) < row.extended_support_ends - row.standard_support_ends < timedelta(days=367)


def test_versions_follow_each_other() -> None:
    minors = [minor(version) for version in VERSIONS]
    assert minors == list(range(minors[0], minors[0] + len(minors)))
    ends = [row.standard_support_ends for row in VERSIONS.values()]
    assert ends == sorted(ends)


@pytest.mark.parametrize("row", [row for row in VERSIONS.values() if row.kubectl_layer], ids=lambda row: row.version)
def test_kubectl_is_within_one_minor_version(row: KubernetesVersion) -> None:
    assert row.kubectl_layer
    assert row.kubectl_layer.startswith("v")
    assert abs(minor(row.version) - int(row.kubectl_layer[1:])) <= 1


def test_every_supported_version_has_a_layer() -> None:
    assert [row.version for row in VERSIONS.values() if row.support != "ended" and row.kubectl_layer is None] == []


def test_layers_are_those_of_the_requirements() -> None:
    layers = {row.version: row.kubectl_layer for row in VERSIONS.values()}
    assert layers == {
        "1.29": None,
        "1.30": "v31",
        "1.31": "v31",
        "1.32": "v31",
        "1.33": "v33",
        "1.34": "v35",
        "1.35": "v35",
        "1.36": "v35",
    }
    requirements = (Path(__file__).parents[2] / "requirements.txt").read_text()
    assert {f"v{number}" for number in re.findall(r"lambda-layer-kubectl-v(\d+)", requirements)} == set(layers.values()) - {None}


def test_support() -> None:
    assert {row.version: row.support for row in VERSIONS.values()} == {
        "1.29": "ended",
        "1.30": "ended",
        "1.31": "ended",
        "1.32": "extended",
        "1.33": "extended",
        "1.34": "extended",
        "1.35": "standard",
        "1.36": "standard",
    }


def test_default_version() -> None:
    assert VERSIONS["1.35"] == KubernetesVersion(
        version="1.35",
        standard_support_ends=date(2027, 3, 27),
        extended_support_ends=date(2028, 3, 27),
        support="standard",
        kubectl_layer="v35",
    )
