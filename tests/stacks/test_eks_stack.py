"""Control plane, add-ons, nodes and plugins."""

import json

import pytest


def addons(templates) -> dict[str, dict]:
    return {addon["Properties"]["AddonName"]: addon for addon in templates.resources("AWS::EKS::Addon")}


def charts(templates) -> dict[str, dict]:
    return {chart["Properties"]["Chart"]: chart for chart in templates.resources("Custom::AWSCDK-EKS-HelmChart")}


def depends_on(templates, resource: dict) -> set[str]:
    return {templates["eks"]["Resources"][name]["Type"] for name in resource.get("DependsOn", [])}


def actions_of(statement: dict) -> list[str]:
    return statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]


def test_nodes_follow_the_clusters_version(synth) -> None:
    assert {group["Properties"]["Version"] for group in synth(K8S_VERSION="1.36").resources("AWS::EKS::Nodegroup")} == {"1.36"}


def test_cluster(synth) -> None:
    cluster = synth().one("AWS::EKS::Cluster")
    assert cluster["Name"] == "ray-llm-multinode"
    assert cluster["Version"] == "1.35"
    assert cluster["AccessConfig"] == {"AuthenticationMode": "API", "BootstrapClusterCreatorAdminPermissions": False}
    assert cluster["EncryptionConfig"][0]["Resources"] == ["secrets"]
    assert cluster["UpgradePolicy"] == {"SupportType": "STANDARD"}
    assert {item["Type"] for item in cluster["Logging"]["ClusterLogging"]["EnabledTypes"]} == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }


@pytest.mark.parametrize(
    ("cidrs", "public", "expected"),
    [("0.0.0.0/0", True, ["0.0.0.0/0"]), ("203.0.113.0/24", True, ["203.0.113.0/24"]), ("none", False, None)],
)
def test_endpoint(synth, cidrs: str, public: bool, expected: list[str] | None) -> None:
    config = synth(PUBLIC_ACCESS_CIDRS=cidrs).one("AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert config["EndpointPrivateAccess"] is True
    assert config["EndpointPublicAccess"] is public
    assert config.get("PublicAccessCidrs") == expected


def test_extended_support_is_only_taken_where_standard_is_over(synth) -> None:
    assert synth(K8S_VERSION="1.32").one("AWS::EKS::Cluster")["UpgradePolicy"] == {"SupportType": "EXTENDED"}


def test_control_plane_logs_belong_to_the_stack(synth) -> None:
    groups = {group["Properties"]["LogGroupName"]: group for group in synth().resources("AWS::Logs::LogGroup", stack="eks")}
    assert groups["/aws/eks/ray-llm-multinode/cluster"]["DeletionPolicy"] == "Delete"
    (cluster,) = synth().resources("AWS::EKS::Cluster")
    assert "AWS::Logs::LogGroup" in depends_on(synth(), cluster)


def test_every_function_logs_to_a_group_of_its_stack(synth) -> None:
    functions = synth().resources("AWS::Lambda::Function")
    assert len(functions) == 4
    assert all("Ref" in function["Properties"]["LoggingConfig"]["LogGroup"] for function in functions)


def test_addons(synth) -> None:
    assert set(addons(synth())) == {
        "vpc-cni",
        "coredns",
        "kube-proxy",
        "eks-pod-identity-agent",
        "eks-node-monitoring-agent",
        "metrics-server",
    }
    (association,) = addons(synth())["vpc-cni"]["Properties"]["PodIdentityAssociations"]
    assert association["ServiceAccount"] == "aws-node"


def test_nodes_wait_for_the_network_addon_and_pods_for_nodes(synth) -> None:
    templates = synth()
    for group in templates.resources("AWS::EKS::Nodegroup"):
        waits = {templates["eks"]["Resources"][name]["Properties"].get("AddonName") for name in group["DependsOn"]}
        assert {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"} <= waits
    for waiting in (addons(templates)["coredns"], addons(templates)["metrics-server"], *charts(templates).values()):
        if waiting["Properties"].get("Chart") != "kuberay-operator":
            assert "AWS::EKS::Nodegroup" in depends_on(templates, waiting)


def test_nothing_waits_for_gpu_nodes(synth) -> None:
    templates = synth()
    resources = templates["eks"]["Resources"]
    (gpu,) = [key for key, value in resources.items() if value["Type"] == "AWS::EKS::Nodegroup" and "Taints" in value["Properties"]]
    assert gpu not in json.dumps([value.get("DependsOn") for value in resources.values()])


def test_system_nodes(synth) -> None:
    (group,) = [
        item["Properties"]
        for item in synth(SYSTEM_NODE_TYPE="r7i.xlarge", SYSTEM_NODE_COUNT="2").resources("AWS::EKS::Nodegroup")
        if "Taints" not in item["Properties"]
    ]
    assert group["AmiType"] == "AL2023_x86_64_STANDARD"
    assert group["ScalingConfig"]["DesiredSize"] == 2
    assert len(group["Subnets"]) == 3


def test_gpu_nodes_are_in_the_chosen_subnet(synth) -> None:
    (group,) = [item["Properties"] for item in synth().resources("AWS::EKS::Nodegroup") if "Taints" in item["Properties"]]
    (subnet,) = group["Subnets"]
    assert "SubnetId" in subnet["Fn::ImportValue"]
    assert group["NodegroupName"] == "gpu-workers"


def test_charts_are_pinned_and_bounded(synth) -> None:
    assert set(charts(synth())) == {"aws-efa-k8s-device-plugin", "nvidia-device-plugin", "kuberay-operator"}
    for chart in charts(synth()).values():
        properties = chart["Properties"]
        assert properties["Wait"] is True
        assert properties["Atomic"] is True
        assert int(properties["Timeout"].removesuffix("s")) <= 600
        assert properties["Version"].removeprefix("v").count(".") == 2
        assert isinstance(properties["Release"], str)
        assert isinstance(properties["Namespace"], str)


def test_efa_plugin_knows_the_type_and_the_regions_registry(synth) -> None:
    values = json.loads(charts(synth(GPU_NODE_TYPE="p6-b300.48xlarge"))["aws-efa-k8s-device-plugin"]["Properties"]["Values"])
    assert values["supportedInstanceLabels"]["values"] == ["p6-b300.48xlarge"]
    assert values["image"]["repository"] == "602401143452.dkr.ecr.sa-east-1.amazonaws.com/eks/aws-efa-k8s-device-plugin"
    assert values["nodeSelector"]["nvidia.com/gpu.present"] == "true"


def test_kubectl_role_is_narrow(synth) -> None:
    policies = [item["Properties"]["PolicyDocument"]["Statement"] for item in synth().resources("AWS::IAM::Policy", stack="eks")]
    actions = [sorted(action for statement in policy for action in actions_of(statement)) for policy in policies]
    logs = ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert sorted(actions) == sorted([["eks:DescribeCluster", *logs], ["lambda:GetFunction", "lambda:InvokeFunction", *logs]])
    assert '"*"' not in json.dumps(policies)
    assert "ContainerRegistryReadOnly" not in json.dumps(synth()["eks"])


def test_functions_of_the_cluster_are_in_private_subnets(synth) -> None:
    functions = synth().resources("AWS::Lambda::Function", stack="eks")
    assert all("Private" in json.dumps(function["Properties"]["VpcConfig"]["SubnetIds"]) for function in functions)


def test_kubeconfig_command_assumes_the_admin_role(synth) -> None:
    command = json.dumps(synth()["eks"]["Outputs"]["KubeconfigCommand"]["Value"])
    assert "aws eks update-kubeconfig --name " in command
    assert "--role-arn " in command
    principals = {json.dumps(entry["Properties"]["PrincipalArn"]) for entry in synth().resources("AWS::EKS::AccessEntry")}
    assert len(principals) == 2
