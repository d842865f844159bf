"""EKS in the emulator, with a real cluster behind it: who gets in, which nodes there are, what is left."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from local.emulator import ACCOUNT, Emulator
from local.kube.api_client import ApiClient
from tests.waiting import until

NAME = "small"
REGION = "sa-east-1"
ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@pytest.fixture(scope="module")
def emulator(binaries) -> Iterator[Emulator]:
    with Emulator(name="kube-tests", region=REGION, kube="real") as running:
        yield running


@pytest.fixture(scope="module")
def client(emulator: Emulator) -> Callable[[str], Any]:
    return lambda service: boto3.client(
        service,
        region_name=REGION,
        endpoint_url=emulator.endpoint,
        aws_access_key_id=ACCOUNT,
        aws_secret_access_key=emulator.environment["AWS_SECRET_ACCESS_KEY"],
    )


@pytest.fixture(scope="module")
def role(client) -> Callable[[str], str]:
    """`role(name)`: the ARN of a role that may be assumed and may describe clusters."""

    def made(name: str) -> str:
        trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
        iam = client("iam")
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
        policy = {"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [policy]})
        iam.put_role_policy(RoleName=name, PolicyName="describe", PolicyDocument=document)
        return arn["Role"]["Arn"]

    return made


@pytest.fixture(scope="module")
def cluster(client, role) -> str:
    client("eks").create_cluster(
        name=NAME,
        version="1.35",
        roleArn=role("control-plane"),
        resourcesVpcConfig={"subnetIds": []},
        accessConfig={"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
    )
    until(lambda: client("eks").describe_cluster(name=NAME)["cluster"]["status"] == "ACTIVE", "the cluster is active")
    return NAME


@pytest.fixture
def kubectl(emulator: Emulator, client, cluster: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`kubectl(role_arn, ...)`: as the role, with the kubeconfig that `aws eks update-kubeconfig` writes."""

    def run(role_arn: str, *arguments: str, secret: str | None = None, token_for: str = NAME) -> subprocess.CompletedProcess[str]:
        keys = client("sts").assume_role(RoleArn=role_arn, RoleSessionName="test")["Credentials"]
        environment = {
            **emulator.environment,
            "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
            "AWS_SESSION_TOKEN": keys["SessionToken"],
            "PATH": os.pathsep.join([str(emulator.folder / "bin"), os.environ["PATH"]]),
            "KUBECONFIG": str(tmp_path / "kubeconfig"),
        }
        update = ["aws", "eks", "update-kubeconfig", "--name", cluster, "--kubeconfig", environment["KUBECONFIG"]]
        subprocess.run(update, env=environment, check=True, capture_output=True)
        config = json.loads(Path(environment["KUBECONFIG"]).read_text())
        arguments_of_token = config["users"][0]["user"]["exec"]["args"]
        arguments_of_token[arguments_of_token.index("--cluster-name") + 1] = token_for
        Path(environment["KUBECONFIG"]).write_text(json.dumps(config))
        if secret:
            environment["AWS_SECRET_ACCESS_KEY"] = secret
        return subprocess.run(["kubectl", *arguments], env=environment, capture_output=True, text=True, check=False)

    return run


def test_a_role_without_an_access_entry_is_nobody(kubectl, role) -> None:
    run = kubectl(role("stranger"), "get", "namespaces")
    assert run.returncode == 1
    assert "must be logged in" in run.stderr or "Unauthorized" in run.stderr


def test_an_access_entry_gives_its_groups_and_no_rights(kubectl, role, client, cluster) -> None:
    arn = role("member")
    client("eks").create_access_entry(clusterName=cluster, principalArn=arn, kubernetesGroups=["ray-llm-verification"])
    who = json.loads(kubectl(arn, "auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
    assert "ray-llm-verification" in who["groups"]
    assert "system:masters" not in who["groups"]
    run = kubectl(arn, "get", "namespaces")
    assert (run.returncode, "Forbidden" in run.stderr) == (1, True)


def test_an_access_policy_gives_rights_until_it_is_taken_away(kubectl, role, client, cluster) -> None:
    arn = role("administrator")
    eks = client("eks")
    eks.create_access_entry(clusterName=cluster, principalArn=arn)
    eks.associate_access_policy(clusterName=cluster, principalArn=arn, policyArn=ADMIN_POLICY, accessScope={"type": "cluster"})
    until(lambda: kubectl(arn, "get", "namespaces").returncode == 0, "the policy lets the role in")
    assert kubectl(arn, "create", "namespace", "made-by-a-role").returncode == 0
    eks.delete_access_entry(clusterName=cluster, principalArn=arn)
    until(lambda: kubectl(arn, "get", "namespaces").returncode == 1, "the role is kept out")


@pytest.mark.parametrize("wrong", [{"secret": "x" * 40}, {"token_for": "another"}], ids=["signature", "cluster"])
def test_a_token_with_another_signature_or_for_another_cluster_is_refused(kubectl, role, client, cluster, wrong: dict) -> None:
    arn = role(f"forger-{next(iter(wrong)).replace('_', '-')}")
    client("eks").create_access_entry(clusterName=cluster, principalArn=arn, kubernetesGroups=["system:masters-of-nothing"])
    assert kubectl(arn, "auth", "whoami").returncode == 0
    run = kubectl(arn, "auth", "whoami", **wrong)
    assert run.returncode == 1
    assert "must be logged in" in run.stderr or "Unauthorized" in run.stderr


@pytest.fixture(scope="module")
def api(emulator: Emulator, cluster: str) -> ApiClient:
    return ApiClient.of_kubeconfig(emulator.admin_kubeconfig(cluster))


def nodes(api: ApiClient) -> dict[str, Any]:
    return {node["metadata"]["name"]: node for node in api.get("/api/v1/nodes")["items"]}


def test_node_groups_are_nodes_with_their_labels_taints_and_capacity(client, cluster, api, role) -> None:
    ec2, eks = client("ec2"), client("eks")
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.7.{number}.0/24", AvailabilityZone=f"{REGION}{zone}")["Subnet"]["SubnetId"]
        for number, zone in enumerate("ab")
    ]
    eks.create_nodegroup(
        clusterName=cluster,
        nodegroupName="gpus",
        subnets=subnets,
        nodeRole=role("node"),
        instanceTypes=["g6.8xlarge"],
        labels={"role": "gpu-worker"},
        taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
        scalingConfig={"minSize": 0, "maxSize": 3, "desiredSize": 2},
    )
    until(lambda: len(nodes(api)) == 2, "two nodes")
    first = nodes(api)
    assert {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in first.values()} == {"sa-east-1a", "sa-east-1b"}
    for name, node in first.items():
        assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "g6.8xlarge"
        assert node["metadata"]["labels"]["role"] == "gpu-worker"
        assert {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
        assert node["status"]["capacity"]["cpu"] == "32"
        assert "nvidia.com/gpu" not in node["status"]["capacity"], "only a device plugin reports it"
        assert name.startswith("ip-10-7-")

    lost = sorted(first)[0]
    api.delete(f"/api/v1/nodes/{lost}")
    until(lambda: len(nodes(api)) == 2 and lost not in nodes(api), "the node is replaced")
    eks.delete_nodegroup(clusterName=cluster, nodegroupName="gpus")
    until(lambda: not nodes(api), "no node is left")


def test_deleting_the_cluster_ends_its_processes(emulator: Emulator, client, cluster) -> None:
    folder = str(emulator.folder / "clusters" / cluster)

    def running() -> list[str]:
        found = subprocess.run(["ps", "-A", "-ww", "-o", "command="], capture_output=True, text=True, check=True).stdout
        return [line for line in found.splitlines() if folder in line]

    programs = {Path(line.split()[0]).name for line in running()}
    assert {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} <= programs
    client("eks").delete_cluster(name=cluster)
    until(lambda: not running(), "no process is left")
