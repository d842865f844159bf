"""KubeRay's own schema of a RayService, made strict."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

CACHE = Path(__file__).parents[2] / ".local" / "kuberay-crds"


def rayservice_schema(version: str) -> dict[str, Any] | None:
    """The v1 schema out of the operator's Go module, downloaded once; None where there is no Go to fetch it."""
    cached = CACHE / f"rayservice-{version}.json"
    if not cached.exists():
        source = _download(version)
        if source is None:
            return None
        crd = yaml.load(source.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        (schema,) = [item["schema"]["openAPIV3Schema"] for item in crd["spec"]["versions"] if item["name"] == "v1"]
        CACHE.mkdir(parents=True, exist_ok=True)
        cached.write_text(json.dumps(schema))
    return strict(json.loads(cached.read_text()))


def _download(version: str) -> Path | None:
    go = shutil.which("go")
    if not go:
        return None
    run = subprocess.run(
        [go, "mod", "download", "-json", f"github.com/ray-project/kuberay/ray-operator@v{version}"],
        env={**os.environ, "GOFLAGS": "-mod=mod"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        return None
    return Path(json.loads(run.stdout)["Dir"]) / "config/crd/bases/ray.io_rayservices.yaml"


def strict(schema: Any) -> Any:
    """As the API server validates with `--validate=strict`: a field that the schema does not know is an error."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and isinstance(schema["properties"], dict):
        open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
        if schema.get("type") == "object" and not open_ended:
            result["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
        result.pop("pattern", None)
        result["type"] = ["integer", "string"]
    return result
