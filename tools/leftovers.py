"""`python -m tools.leftovers`: what survived `cdk destroy`, by this project's tag and by the names that EKS gives.

Exit status 0 when nothing is left, 1 when something is or could not be looked for, 2 when the settings are not usable. Lists,
never deletes.
"""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settings import Settings, SettingsError
from tools.cdk_context import cdk_context

_RETRY = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=15)
_NOT_CHECKED = "not checked: "
# States in which EC2 still lists what is deleted.
_GONE = ("terminated", "deleted", "deleting")


def leftovers(cluster: str, client: Callable[[str], Any]) -> Iterator[tuple[str, str]]:
    """(kind, name) of everything found; a kind that the caller may not list appears with the reason as its name."""
    for kind, search in _SEARCHES.items():
        try:
            yield from ((kind, name) for name in search(cluster, client))
        except (ClientError, BotoCoreError) as error:
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
            yield kind, f"{_NOT_CHECKED}{code}"


def _ec2(operation: str, field: str, name: str, **filters: str) -> Callable[[str, Callable[[str], Any]], list[str]]:
    """A search of EC2's by filters, in which {} is the cluster's name. `filters` has _ for the - of EC2's names."""

    def search(cluster: str, client: Callable[[str], Any]) -> list[str]:
        wanted = [{"Name": key, "Values": [value.format(cluster)]} for key, value in filters.items()]
        pages = client("ec2").get_paginator(operation).paginate(Filters=wanted)
        rows = [row for page in pages for row in page[field]]
        return [row[name] for row in rows if row.get("State", row.get("Status")) not in _GONE]

    return search


def _load_balancers(cluster: str, client: Callable[[str], Any]) -> list[str]:
    owned = f"kubernetes.io/cluster/{cluster}"
    elb = client("elbv2")
    arns = [
        row["LoadBalancerArn"] for page in elb.get_paginator("describe_load_balancers").paginate() for row in page["LoadBalancers"]
    ]
    found = []
    for start in range(0, len(arns), 20):
        for row in elb.describe_tags(ResourceArns=arns[start : start + 20])["TagDescriptions"]:
            tags = {tag["Key"]: tag["Value"] for tag in row["Tags"]}
            if owned in tags or tags.get("elbv2.k8s.aws/cluster") == cluster:
                found.append(row["ResourceArn"])
    return found


def _log_groups(cluster: str, client: Callable[[str], Any]) -> list[str]:
    prefixes = (f"/aws/eks/{cluster}/", f"/aws/lambda/{cluster}-", f"/aws/containerinsights/{cluster}/", f"/{cluster}-")
    paginator = client("logs").get_paginator("describe_log_groups")
    return sorted(
        {
            row["logGroupName"]
            for prefix in prefixes
            for page in paginator.paginate(logGroupNamePrefix=prefix)
            for row in page["logGroups"]
        }
    )


def _tagged(cluster: str, client: Callable[[str], Any]) -> list[str]:
    """Everything with the project's own tag, whatever its service; the index runs behind by minutes."""
    pages = (
        client("resourcegroupstaggingapi")
        .get_paginator("get_resources")
        .paginate(
            TagFilters=[{"Key": "project", "Values": ["multi-node-ray-serve-on-eks"]}, {"Key": "cluster", "Values": [cluster]}]
        )
    )
    return [row["ResourceARN"] for page in pages for row in page["ResourceTagMappingList"]]


def _stacks(cluster: str, client: Callable[[str], Any]) -> list[str]:
    names = {f"{cluster}-{part}" for part in ("network", "eks", "ray-serve", "delivery")}
    pages = client("cloudformation").get_paginator("describe_stacks").paginate()
    return [f"{row['StackName']} ({row['StackStatus']})" for page in pages for row in page["Stacks"] if row["StackName"] in names]


_OWNED = {"tag-key": "kubernetes.io/cluster/{}"}
_SEARCHES: dict[str, Callable[[str, Callable[[str], Any]], list[str]]] = {
    "stack": _stacks,
    "network interface of nodes or pods": _ec2(
        "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", **{"tag:cluster.k8s.amazonaws.com/name": "{}"}
    ),
    "network interface of the control plane": _ec2(
        "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", description="Amazon EKS {}"
    ),
    "security group of the control plane": _ec2(
        "describe_security_groups", "SecurityGroups", "GroupId", **{"group-name": "eks-cluster-sg-{}-*"}
    ),
    "security group of a load balancer": _ec2("describe_security_groups", "SecurityGroups", "GroupId", **_OWNED),
    "volume": _ec2("describe_volumes", "Volumes", "VolumeId", **_OWNED),
    "load balancer": _load_balancers,
    "log group": _log_groups,
    "anything with the project's tag": _tagged,
}


def main() -> int:
    """Print one line for each survivor."""
    try:
        settings = Settings.load(context=cdk_context(), environ=os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    found = list(leftovers(settings.cluster_name, lambda name: boto3.client(name, region_name=settings.region, config=_RETRY)))
    for kind, name in found:
        print(f"{kind:40} {name}")
    unchecked = sum(name.startswith(_NOT_CHECKED) for _, name in found)
    but = f", {unchecked} of {len(_SEARCHES)} kinds not checked," if unchecked else ""
    print(f"{len(found) - unchecked} found{but} in {settings.region} for CLUSTER_NAME={settings.cluster_name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
