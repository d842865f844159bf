"""The parts that AWS consists of: accounts, ARNs and the console of one know nothing of another.

Source: AWS General Reference, "Amazon Resource Names", and the consoles' addresses in the user guides of China and GovCloud;
2026-12-02.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsPartition:
    """One of aws, aws-cn and aws-us-gov, as its ARNs name it."""

    name: str
    console_domain: str

    @classmethod
    def of(cls, region: str) -> AwsPartition:
        """The partition of a region, by the region's name."""
        return _PARTITIONS.get(region.rsplit("-", 2)[0], _PARTITIONS[""])


_PARTITIONS = {
    "": AwsPartition(name="aws", console_domain="console.aws.amazon.com"),
    "cn": AwsPartition(name="aws-cn", console_domain="console.amazonaws.cn"),
    "us-gov": AwsPartition(name="aws-us-gov", console_domain="console.amazonaws-us-gov.com"),
}


def console_url(region: str) -> str:
    """The console's address in a region, without a path."""
    return f"https://{region}.{AwsPartition.of(region).console_domain}"
