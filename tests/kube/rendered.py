"""`.venv/bin/python -m tests.kube.rendered FILE NUMBER COUNT`: what settings combinations give to kubectl and helm, as JSON.

A program of its own because the environment that synthesizes has no emulator, and the other way round. It takes every
COUNT-th combination from NUMBER on, so that several share the work.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conftest import _synth
from tests.stacks.settings_matrix import COMBINATIONS


def write(file: Path, names: list[str]) -> None:
    """Manifests, releases and node groups by the combination's name."""
    found = {}
    for name in names:
        templates = _synth(tuple(sorted(COMBINATIONS[name].items())))
        groups = [group["Properties"] for group in templates.resources("AWS::EKS::Nodegroup")]
        found[name] = {
            "manifests": templates.manifest(),
            "charts": [chart["Properties"] for chart in templates.resources("Custom::AWSCDK-EKS-HelmChart")],
            "node_groups": [{key: group.get(key) for key in ("Labels", "Taints", "ScalingConfig")} for group in groups],
            "group": next(
                entry["Properties"]["KubernetesGroups"][0]
                for entry in templates.resources("AWS::EKS::AccessEntry", stack="ray-serve")
            ),
        }
    file.write_text(json.dumps(found))


if __name__ == "__main__":
    file, number, count = sys.argv[1:]
    write(Path(file), list(COMBINATIONS)[int(number) :: int(count)])
