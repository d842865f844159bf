"""What the deployment wants, as the preflight sees it."""

import re
from dataclasses import dataclass

_ECR = re.compile(
    r"(\d{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/([^:@]+)(?::([^@]+)|@(sha256:[0-9a-f]{64}))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The settings that an AWS account or region can refuse."""

    region: str
    cluster_name: str
    kubernetes_version: str
    gpu_node_type: str
    gpu_node_count: int
    gpu_zone: str
    system_node_type: str
    system_node_count: int
    image: str

    @classmethod
    def of_properties(cls, properties, *, region):
        """From a custom resource's properties, which CloudFormation delivers as strings."""
        return cls(
            region=region,
            cluster_name=properties["ClusterName"],
            kubernetes_version=properties["KubernetesVersion"],
            gpu_node_type=properties["GpuNodeType"],
            gpu_node_count=int(properties["GpuNodeCount"]),
            gpu_zone=properties.get("GpuZone", ""),
            system_node_type=properties["SystemNodeType"],
            system_node_count=int(properties["SystemNodeCount"]),
            image=properties["Image"],
        )

    @property
    def node_groups(self):
        """(instance type, number of nodes) of each node group."""
        return ((self.gpu_node_type, self.gpu_node_count), (self.system_node_type, self.system_node_count))


def private_image(image):
    """(account, region, repository, image id as ECR takes it) of an image in Amazon ECR, else None."""
    match = _ECR.fullmatch(image)
    if not match:
        return None
    account, region, repository, tag, digest = match.groups()
    return account, region, repository, {"imageTag": tag} if tag else {"imageDigest": digest}
