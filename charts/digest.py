"""Short fingerprints of configurations, to see whether what runs is what was asked for. Pure Python."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def cluster_digest(ray_cluster: Mapping[str, Any]) -> str:
    """Of a RayService's rayClusterConfig, the sizes of its worker groups included.

    KubeRay leaves a running cluster at its sizes when those of the RayService change (`shouldUpdateCluster` of 1.4 compares
    without them), so another size needs another cluster like every other change.
    """
    return _digest(_text(ray_cluster))


def serve_digest(config: Mapping[str, Any]) -> str:
    """Of a serveConfigV2's applications: their names, import paths and arguments. Ray reports back exactly these."""
    rows = [_text([application["name"], application["import_path"], application["args"]]) for application in config["applications"]]
    return _digest("\n".join(sorted(rows)))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
