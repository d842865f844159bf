"""`.venv/bin/python -m tests.kube.deployment FILE`: what the default settings deploy to the cluster, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conftest import _synth


def write(file: Path) -> None:
    """Manifests, releases in the order of their stacks, and what the verification is asked."""
    templates = _synth(())
    (verification,) = templates.resources("Custom::Verification", stack="ray-serve")
    found = {
        "manifests": templates.manifest(),
        "charts": [chart["Properties"] for chart in templates.resources("Custom::AWSCDK-EKS-HelmChart")],
        "verification": verification["Properties"],
    }
    file.write_text(json.dumps(found))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
