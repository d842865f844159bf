"""EC2's limits on running on-demand instances, which count vCPUs by family."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit of Service Quotas, service `ec2`."""

    code: str
    name: str


GRAPHICS = Quota("L-DB2E81BA", "Running On-Demand G and VT instances")
ACCELERATED = Quota("L-417A185B", "Running On-Demand P instances")
STANDARD = Quota("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances")
QUOTAS = (GRAPHICS, ACCELERATED, STANDARD)

_FAMILIES = {
    **dict.fromkeys(("g", "gr", "vt"), GRAPHICS),
    "p": ACCELERATED,
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), STANDARD),
}


def quota_of(instance_type):
    """The quota that an instance type counts against, or None for a family that this project does not use."""
    letters = re.match("[a-z]*", instance_type)[0]
    return _FAMILIES.get(letters)
