"""What one worker pod asks of its GPU node."""

from dataclasses import dataclass

# What stays for the kubelet, the system reservation and the daemon sets of a GPU node (VPC CNI, kube-proxy, the
# device plugins, the monitoring and Pod Identity agents), generously.
_RESERVED_VCPUS = 4
_MEMORY_SHARE = 0.8
_SHARED_MEMORY_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResources:
    """The whole node: all its GPUs and EFA interfaces, so that no two workers, and so no two phases, share one."""

    vcpus: int
    memory_gib: int
    gpus: int
    efa_interfaces: int

    @classmethod
    def of_node(cls, *, vcpus: int, memory_mib: int, gpus: int, efa_interfaces: int) -> "WorkerResources":
        """Everything of a node but what its own system needs."""
        return cls(
            vcpus=vcpus - _RESERVED_VCPUS,
            memory_gib=int(memory_mib / 1024 * _MEMORY_SHARE),
            gpus=gpus,
            efa_interfaces=efa_interfaces,
        )

    @property
    def shared_memory_gib(self) -> int:
        """Size limit of /dev/shm, which counts against `memory_gib`."""
        return max(1, int(self.memory_gib * _SHARED_MEMORY_SHARE))

    def quantities(self) -> dict[str, str]:
        """Requests and limits alike: extended resources allow no other, and equal values give the best QoS class."""
        return {
            "cpu": str(self.vcpus),
            "memory": f"{self.memory_gib}Gi",
            "nvidia.com/gpu": str(self.gpus),
            "vpc.amazonaws.com/efa": str(self.efa_interfaces),
        }
