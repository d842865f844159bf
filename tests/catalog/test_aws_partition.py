"""Which partition a region belongs to."""

import pytest

from catalog.aws_partition import AwsPartition, console_url


@pytest.mark.parametrize(
    ("region", "name", "console"),
    [
        ("sa-east-1", "aws", "https://sa-east-1.console.aws.amazon.com"),
        ("cn-northwest-1", "aws-cn", "https://cn-northwest-1.console.amazonaws.cn"),
        ("us-gov-west-1", "aws-us-gov", "https://us-gov-west-1.console.amazonaws-us-gov.com"),
    ],
)
def test_region_has_its_partition_and_console(region: str, name: str, console: str) -> None:
    assert (AwsPartition.of(region).name, console_url(region)) == (name, console)
