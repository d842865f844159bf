"""How long a first deployment takes by its longest path."""

import copy

from tests.stacks import critical_path as path


def test_longest_path_is_close_to_the_control_planes(synth) -> None:
    templates = synth().by_stack
    assert path.longest_path(templates) <= 1400
    print(f"\nlongest path: {path.longest_path(templates)} s")


def test_path_notices_a_chart_that_waits_for_gpu_nodes(synth) -> None:
    """The measure is worth something: the mistake it guards against costs time in it."""
    templates = copy.deepcopy(synth().by_stack)
    resources = templates["eks"]["Resources"]
    (gpu,) = [key for key, value in resources.items() if value["Type"] == "AWS::EKS::Nodegroup" and "Taints" in value["Properties"]]
    for value in resources.values():
        if value["Type"] == "Custom::AWSCDK-EKS-HelmChart":
            value["DependsOn"] = [*value["DependsOn"], gpu]
    assert path.longest_path(templates) > path.longest_path(synth().by_stack)


def test_path_notices_a_control_plane_that_waits_for_nat(synth) -> None:
    templates = copy.deepcopy(synth().by_stack)
    nat = next(value for value in templates["network"]["Resources"].values() if value["Type"] == "AWS::EC2::NatGateway")
    templates["eks"]["Resources"]["Nat"] = nat
    next(value for value in templates["eks"]["Resources"].values() if value["Type"] == "AWS::EKS::Cluster")["DependsOn"] = ["Nat"]
    assert path.longest_path(templates) == path.longest_path(synth().by_stack) + path.NAT
