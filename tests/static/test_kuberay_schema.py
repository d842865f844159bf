"""The rendered RayService against the schema of the operator that will read it."""

import copy

import pytest
from jsonschema import Draft202012Validator

from tests.stacks.settings_matrix import COMBINATIONS
from tests.static.kuberay_crd import rayservice_schema

VERSION = "1.4.0"


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = rayservice_schema(VERSION)
    if schema is None:
        pytest.skip("KubeRay's schema comes from its Go module: install Go with access to a module proxy, then `make test-fast`")
    # The API server knows these two of every object, so the schema only names them.
    schema["properties"]["metadata"] = {"type": "object"}
    return Draft202012Validator(schema)


def errors(validator: Draft202012Validator, manifest: dict) -> list[str]:
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in validator.iter_errors(manifest)]


@pytest.mark.parametrize("name", COMBINATIONS)
def test_ray_service_is_valid_strictly(validator, synth, name: str) -> None:
    assert errors(validator, synth(**COMBINATIONS[name]).object("RayService")) == []


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("spec",), "serveConfig", "a field of an older version"),
        (("spec", "rayClusterConfig", "headGroupSpec"), "nodeSelector", {"role": "system"}),
        (("spec", "rayClusterConfig", "headGroupSpec", "rayStartParams"), "num-cpus", 0),
        (("spec", "rayClusterConfig", "workerGroupSpecs", 0, "template", "spec", "containers", 0), "resource", {}),
    ],
)
def test_schema_refuses_what_kubernetes_would(validator, synth, path: tuple, key: str, value: object) -> None:
    manifest = copy.deepcopy(synth().object("RayService"))
    target = manifest
    for part in path:
        target = target[part]
    target[key] = value
    assert errors(validator, manifest)
