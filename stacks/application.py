"""The three stacks of one deployment and how they hang together."""

from datetime import date

from aws_cdk import Annotations, Environment, Tags
from constructs import Construct

from settings import Settings
from stacks.eks_stack import EksStack
from stacks.endpoint_check import EndpointCheck
from stacks.network_stack import NetworkStack
from stacks.ray_serve_stack import RayServeStack


class Application:
    """Network, cluster and model under `scope`, tagged alike; warnings about the settings appear once.

    `endpoint_check` lets a pipeline reach the endpoint after it has deployed this application.
    """

    def __init__(self, scope: Construct, *, settings: Settings, today: date, endpoint_check: EndpointCheck | None = None) -> None:
        env = Environment(account=settings.account, region=settings.region)
        self.network = NetworkStack(scope, "NetworkStack", settings=settings, env=env)
        self.eks = EksStack(
            scope,
            "EksStack",
            settings=settings,
            vpc=self.network.vpc,
            gpu_subnet_id=self.network.gpu_subnet_id,
            env=env,
        )
        self.ray_serve = RayServeStack(
            scope,
            "RayServeStack",
            settings=settings,
            cluster=self.eks.cluster,
            system_nodes=self.eks.system_nodes,
            gpu_nodes=self.eks.gpu_nodes,
            endpoint_check=endpoint_check,
            env=env,
        )
        self.stacks = (self.network, self.eks, self.ray_serve)
        for stack in self.stacks:
            stack.termination_protection = settings.termination_protection
            for key, value in tags(stage=settings.stage, cluster=settings.cluster_name).items():
                Tags.of(stack).add(key, value)
        for number, warning in enumerate(settings.warnings(today=today)):
            Annotations.of(self.network).add_warning_v2(f"settings:{number}", warning)


def tags(*, stage: str, cluster: str) -> dict[str, str]:
    """The tags of everything that belongs to one stage of one cluster."""
    return {"project": "multi-node-ray-serve-on-eks", "stage": stage, "cluster": cluster}
