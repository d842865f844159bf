"""The longest path through the templates' resources: what a person waits for."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

# Seconds. Control plane, NAT gateway and node groups: public deployment logs; image, weights and engine: measured on this
# model and image by their publishers' samples; each value is a typical first deployment in one region.
CONTROL_PLANE, NAT, CPU_NODES, GPU_NODES, CHART = 617, 106, 125, 180, 60
IMAGE_PULL, IMAGE_PULL_PARALLEL = 377, 60
DOWNLOAD, DOWNLOAD_NVME = 137, 69
ENGINE_START, RAY_AND_SERVE = 240, 50


def start_of_service(*, parallel_pull: bool, nvme: bool) -> int:
    """From the RayService's creation to its first answer, for which the verification waits."""
    pull = IMAGE_PULL_PARALLEL if parallel_pull else IMAGE_PULL
    return pull + (DOWNLOAD_NVME if nvme else DOWNLOAD) + ENGINE_START + RAY_AND_SERVE


def longest_path(templates: Mapping[str, dict[str, Any]]) -> int:
    """Seconds until the RayService answers. A stack starts when the stacks that it imports from are complete."""
    launch_templates = json.dumps(templates["eks"])
    service = start_of_service(parallel_pull="FastImagePull: true" in launch_templates, nvme="RAID0" in launch_templates)
    order = ("network", "eks", "ray-serve")
    return sum(stack_seconds(templates[stack], service=service) for stack in order)


def stack_seconds(template: dict[str, Any], *, service: int) -> int:
    resources = template["Resources"]

    @cache
    def finished(name: str) -> int:
        resource = resources[name]
        return seconds(resource, service=service) + max(map(finished, needs(resource, resources)), default=0)

    return max(map(finished, resources))


def seconds(resource: dict[str, Any], *, service: int) -> int:
    kind = resource["Type"]
    if kind == "AWS::EKS::Nodegroup":
        return GPU_NODES if "Taints" in resource["Properties"] else CPU_NODES
    return {
        "AWS::EKS::Cluster": CONTROL_PLANE,
        "AWS::EC2::NatGateway": NAT,
        "Custom::AWSCDK-EKS-HelmChart": CHART,
        "Custom::Verification": service,
    }.get(kind, 0)


def needs(resource: dict[str, Any], resources: dict[str, Any]) -> set[str]:
    """Resources of the same stack that this one waits for: DependsOn, Ref and Fn::GetAtt."""
    found = set(resource.get("DependsOn", []))

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                if key == "Ref":
                    found.add(item)
                elif key == "Fn::GetAtt":
                    found.add(item[0] if isinstance(item, list) else item.split(".")[0])
                else:
                    walk(item)

    walk(resource.get("Properties", {}))
    return found & set(resources)
