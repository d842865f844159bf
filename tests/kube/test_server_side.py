"""The API server takes every manifest of every settings combination, strictly, and refuses what it does not know."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from local.kube.control_plane import ControlPlane
from tests.stacks.settings_matrix import COMBINATIONS


def stream(items: list[dict[str, Any]]) -> str:
    """As the kubectl handler writes its file."""
    return "".join(json.dumps(item) for item in items)


def dry_run(control_plane: ControlPlane, items: list[dict[str, Any]], *options: str) -> tuple[int, str, str]:
    run = control_plane.kubectl("apply", "--dry-run=server", *options, "-f", "-", stdin=stream(items))
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_manifest_is_accepted_strictly(control_plane, rendered, name: str) -> None:
    items = rendered[name]["manifests"]
    status, said, problem = dry_run(control_plane, items, "--validate=strict")
    assert (status, problem) == (0, "")
    assert said.count("(server dry run)") == len(items) == 6


@pytest.mark.parametrize(
    ("path", "key", "value", "message"),
    [
        (("spec",), "serveConfig", "a field of an older version", 'unknown field "spec.serveConfig"'),
        (("spec", "rayClusterConfig"), "headGroup", {}, 'unknown field "spec.rayClusterConfig.headGroup"'),
        (
            ("spec", "rayClusterConfig", "workerGroupSpecs", 0, "template", "spec", "containers", 0),
            "resource",
            {},
            'unknown field "spec.rayClusterConfig.workerGroupSpecs[0].template.spec.containers[0].resource"',
        ),
        (("spec", "rayClusterConfig", "headGroupSpec", "rayStartParams"), "num-cpus", 0, "must be of type string"),
        (("spec", "rayClusterConfig", "workerGroupSpecs", 1), "replicas", "two", "must be of type integer"),
    ],
)
# The handler names no validation: kubectl's own default must refuse too.
@pytest.mark.parametrize("options", [("--validate=strict",), ()], ids=["strict", "as the handler calls it"])
def test_an_unknown_or_mistyped_field_is_refused_with_its_name(
    control_plane, rendered, path: tuple, key: str, value: object, message: str, options: tuple[str, ...]
) -> None:
    (service,) = [copy.deepcopy(item) for item in rendered["defaults"]["manifests"] if item["kind"] == "RayService"]
    target: Any = service
    for part in path:
        target = target[part]
    target[key] = value
    status, _, problem = dry_run(control_plane, [service], *options)
    assert status == 1
    assert message in problem


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every scalar by its path."""
    if isinstance(value, dict):
        return {name: leaf for key, child in value.items() for name, leaf in leaves(child, f"{path}.{key}").items()}
    if isinstance(value, list):
        return {name: leaf for index, child in enumerate(value) for name, leaf in leaves(child, f"{path}[{index}]").items()}
    return {path: value}


def test_the_operator_reads_all_that_was_applied(rendered, api) -> None:
    """The CRDs prune nothing and change nothing; they add defaults."""
    (service,) = [item for item in rendered["defaults"]["manifests"] if item["kind"] == "RayService"]
    path = f"/apis/ray.io/v1/namespaces/{service['metadata']['namespace']}/rayservices"
    kept = api.create(f"{path}?dryRun=All&fieldValidation=Strict", service)
    wanted = leaves(service["spec"])
    assert len(wanted) > 100
    assert {path: leaves(kept["spec"]).get(path) for path in wanted} == wanted
