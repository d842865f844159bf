"""The RayService as it stands in the synthesized template."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.serve.simulated_node import SimulatedNode

_MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"


@dataclass(frozen=True, slots=True, kw_only=True)
class RayService:
    """`serve_config` is serveConfigV2, parsed and otherwise untouched; `nodes` are the pods, the head first."""

    name: str
    serve_config: Mapping[str, Any]
    nodes: tuple[SimulatedNode, ...]

    @classmethod
    def from_assembly(cls, directory: Path) -> RayService:
        """The only RayService among the Kubernetes manifests of a synthesized assembly.

        Raises:
            LookupError: there is none, or several.
        """
        templates = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.template.json"))]
        resources = [resource for template in templates for resource in template.get("Resources", {}).values()]
        manifests = [_text(resource["Properties"]["Manifest"]) for resource in resources if resource["Type"] == _MANIFEST]
        services = [item for manifest in manifests for item in json.loads(manifest) if item["kind"] == "RayService"]
        if len(services) != 1:
            raise LookupError(
                f"{directory}: {len(services)} RayServices in {len(templates)} templates, one is needed. Run `make synth`."
            )
        return cls.from_object(services[0])

    @classmethod
    def from_object(cls, service: Mapping[str, Any]) -> RayService:
        """Read a RayService object (ray.io/v1)."""
        config = json.loads(service["spec"]["serveConfigV2"])
        cluster = service["spec"]["rayClusterConfig"]
        gpu_types = {
            side["accelerator_type"]
            for application in config["applications"]
            for side in (application["args"]["prefill_config"], application["args"]["decode_config"])
            if "accelerator_type" in side
        }
        workers = [
            _node(group["groupName"], group, gpu_types) for group in cluster["workerGroupSpecs"] for _ in range(group["replicas"])
        ]
        return cls(
            name=service["metadata"]["name"],
            serve_config=config,
            nodes=(_node("head", cluster["headGroupSpec"], set()), *workers),
        )


def _node(name: str, group: Mapping[str, Any], gpu_types: set[str]) -> SimulatedNode:
    """What KubeRay makes of a group: rayStartParams first, the container's limits where they say nothing."""
    start = group["rayStartParams"]
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    # KubeRay writes the value into a shell command, so the shell's quoting rules decide what Ray reads.
    resources = json.loads(shlex.split(start["resources"])[0]) if "resources" in start else {}
    # Ray finds the GPU's type out by itself on a real node; here the one that the config asks for is taken to be there.
    found = {f"accelerator_type:{gpu_type}": 1 for gpu_type in gpu_types}
    return SimulatedNode(
        group=name,
        cpus=int(start.get("num-cpus", limits["cpu"])),
        gpus=int(start.get("num-gpus", limits.get("nvidia.com/gpu", 0))),
        resources={**resources, **found},
    )


def _text(manifest: str | Mapping[str, Any]) -> str:
    """A manifest's text; a value that only the deployment knows stays as a name in its place."""
    if isinstance(manifest, str):
        return manifest
    separator, parts = manifest["Fn::Join"]
    return separator.join(part if isinstance(part, str) else "known-at-deployment" for part in parts)
