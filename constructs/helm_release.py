"""A pinned Helm release that CloudFormation waits for."""

from typing import Any

from aws_cdk import Duration, aws_eks_v2 as eks
from constructs import Construct


class HelmRelease(Construct):
    """One chart at one exact version, installed under a literal release name, rolled back whole if it does not come up.

    The timeout is 10 minutes: it must end well before the 15 minutes after which Lambda kills the handler, because a
    killed Helm leaves the release "pending" for good.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        chart: str,
        repository: str,
        version: str,
        release: str,
        namespace: str,
        values: dict[str, Any],
    ) -> None:
        super().__init__(scope, id)
        eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            chart=chart,
            repository=repository,
            version=version,
            release=release,
            namespace=namespace,
            values=values,
            wait=True,
            atomic=True,
            timeout=Duration.minutes(10),
        )
