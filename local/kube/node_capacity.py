"""What a node offers to pods, as the kubelet of EKS's AL2023 image computes it from the instance."""

from __future__ import annotations

from dataclasses import dataclass

# The hypervisor and the kernel keep this share of the memory that EC2 names; the default with which Karpenter reckons.
_MEMORY_OVERHEAD = 0.075
# https://github.com/awslabs/amazon-eks-ami, eni-max-pods.txt: 58 for a 4xlarge and smaller, 234 for most larger types.
_PODS_SMALL, _PODS_LARGE, _SMALL_VCPUS = 58, 234, 16
# nodeadm's kubelet configuration: memory in MiB.
_RESERVED_MEMORY, _RESERVED_PER_POD, _EVICTION_MEMORY = 255, 11, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """Of one instance, without GPUs and EFA interfaces: those are there once a device plugin has reported them."""

    vcpus: int
    memory_mib: int
    volume_gib: int

    @property
    def pods(self) -> int:
        """At most, by the network interfaces of the type."""
        return _PODS_SMALL if self.vcpus <= _SMALL_VCPUS else _PODS_LARGE

    def capacity(self) -> dict[str, str]:
        """`status.capacity`."""
        return {
            "cpu": str(self.vcpus),
            "memory": f"{self._memory()}Mi",
            "pods": str(self.pods),
            "ephemeral-storage": f"{self.volume_gib}Gi",
        }

    def allocatable(self) -> dict[str, str]:
        """`status.allocatable`: without what is kept for the system."""
        memory = self._memory() - _RESERVED_MEMORY - _RESERVED_PER_POD * self.pods - _EVICTION_MEMORY
        return {
            "cpu": f"{self.vcpus * 1000 - self._reserved_millicores()}m",
            "memory": f"{memory}Mi",
            "pods": str(self.pods),
            # 1 GiB reserved, and 10 % below which pods are evicted.
            "ephemeral-storage": f"{int(self.volume_gib * 0.9) - 1}Gi",
        }

    def _memory(self) -> int:
        return int(self.memory_mib * (1 - _MEMORY_OVERHEAD))

    def _reserved_millicores(self) -> int:
        """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the others."""
        shares = [60, 10, 5, 5]
        return int(sum(shares[: self.vcpus]) + 2.5 * max(0, self.vcpus - len(shares)))
