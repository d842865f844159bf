"""The preflight around its decisions: AWS as recorded, refusals, silence, and the command line."""

import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from constructs.preflight.handler import index, lookups
from constructs.preflight.handler.unavailable import Unavailable

from tests.constructs.test_preflight_checks import IMAGE, REQUEST
from tools import preflight as tool


def refused(code: str, operation: str = "Describe") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "secret words"}}, operation)


def instance(kind: str, cores: int, threads: int = 2, **more: Any) -> dict:
    return {"InstanceType": kind, "CpuOptions": {"CoreCount": cores, "ThreadsPerCore": threads}, **more}


RECORDED: dict[str, Any] = {
    "describe_regions": {"Regions": [{"RegionName": "sa-east-1", "OptInStatus": "opt-in-not-required"}]},
    "describe_instance_type_offerings": [
        {"InstanceTypeOfferings": [{"Location": "sa-east-1c"}]},
        {"InstanceTypeOfferings": [{"Location": "sa-east-1a"}]},
    ],
    "describe_instance_types": [
        {
            "InstanceTypes": [
                {
                    "InstanceType": "g6.8xlarge",
                    "VCpuInfo": {"DefaultVCpus": 32},
                    "MemoryInfo": {"SizeInMiB": 131072},
                    "NetworkInfo": {"EfaSupported": True},
                    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
                },
                {"InstanceType": "m7i.xlarge", "VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 16384}},
            ]
        }
    ],
    "describe_instances": [
        {
            "Reservations": [
                {
                    "Instances": [
                        instance("g5.xlarge", 2),
                        instance("g5.xlarge", 2, InstanceLifecycle="spot"),
                        instance("g6.8xlarge", 16, Tags=[{"Key": "eks:cluster-name", "Value": "ray-llm-multinode"}]),
                        instance("g6.8xlarge", 16, Tags=[{"Key": "eks:cluster-name", "Value": "another"}]),
                        instance("trn1.2xlarge", 4),
                    ]
                },
                {"Instances": [instance("m7g.large", 2, threads=1)]},
            ]
        }
    ],
    "describe_cluster_versions": [
        {
            "clusterVersions": [
                {"clusterVersion": "1.35", "versionStatus": "STANDARD_SUPPORT"},
                {"clusterVersion": "1.9", "versionStatus": "EXTENDED_SUPPORT"},
                {"clusterVersion": "1.31", "versionStatus": "unsupported"},
            ]
        }
    ],
    "get_service_quota": {"Quota": {"Value": 100.0}},
    "get_aws_default_service_quota": {"Quota": {"Value": 5.0}},
    "batch_get_image": {"images": [{"imageId": {}}], "failures": []},
}


class Aws:
    """Every client of one account: answers by operation, or raises what is recorded in its place."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.calls = {**RECORDED, **answers}, []

    def __call__(self, service: str, region: str) -> "Aws":
        self.calls.append((service, region))
        return self

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> Any:
            self.calls.append((operation, arguments))
            answer = self.answers[operation]
            if callable(answer):
                answer = answer(**arguments)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def get_paginator(self, operation: str) -> Any:
        return type("Paginator", (), {"paginate": staticmethod(getattr(self, operation))})


def test_facts_of_a_recorded_account() -> None:
    aws = Aws()
    facts = lookups.gather(REQUEST, client=aws)
    assert facts == {
        "region": "opt-in-not-required",
        "zones": ["sa-east-1a", "sa-east-1c"],
        "elsewhere": [],
        "types": {
            "g6.8xlarge": {"vcpus": 32, "memory_mib": 131072, "efa": True, "architectures": ["x86_64"]},
            "m7i.xlarge": {"vcpus": 4, "memory_mib": 16384, "efa": False, "architectures": ["x86_64"]},
        },
        "running": {"L-DB2E81BA": 36, "L-1216C47A": 2},
        "kubernetes": ["1.9", "1.35"],
        "image": "",
        "L-DB2E81BA": 100.0,
        "L-417A185B": 100.0,
        "L-1216C47A": 100.0,
    }
    asked = dict(call for call in aws.calls if isinstance(call[1], dict))
    assert asked["batch_get_image"]["registryId"] == "763104351884"
    assert asked["batch_get_image"]["imageIds"] == [{"imageTag": "serve-llm-cuda-v1.0"}]
    assert asked["describe_instances"]["Filters"] == [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    assert ("describe_regions", {"AllRegions": True, "RegionNames": ["sa-east-1"]}) in aws.calls
    assert ("describe_regions", {}) not in aws.calls, "other regions are searched only where this one offers nothing"


def test_a_type_that_is_not_offered_here_is_looked_for_elsewhere() -> None:
    regions = {"Regions": [{"RegionName": "us-west-2"}, {"RegionName": "us-east-1"}, {"RegionName": "sa-east-1"}]}
    offers = {"us-east-1": ["us-east-1a"], "us-west-2": ["us-west-2b"]}

    def client(service: str, region: str) -> Aws:
        zones = [{"InstanceTypeOfferings": [{"Location": zone} for zone in offers.get(region, [])]}]
        return Aws(describe_regions=regions, describe_instance_type_offerings=zones)

    facts = lookups.gather(REQUEST, client=client)
    assert (facts["zones"], facts["elsewhere"]) == ([], ["us-east-1", "us-west-2"])


def test_a_quota_that_was_never_applied_has_awss_default() -> None:
    facts = lookups.gather(REQUEST, client=Aws(get_service_quota=refused("NoSuchResourceException")))
    assert facts["L-DB2E81BA"] == 5.0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refused("AccessDeniedException", "GetServiceQuota"), "not allowed to call GetServiceQuota: AccessDeniedException"),
        (refused("UnauthorizedOperation", "X"), "not allowed to call X: UnauthorizedOperation"),
        (refused("ThrottlingException", "X"), "no answer from X: ThrottlingException"),
        (EndpointConnectionError(endpoint_url="https://x"), "no answer: EndpointConnectionError"),
    ],
)
def test_what_cannot_be_looked_up_is_unavailable_with_its_reason(error: Exception, expected: str) -> None:
    facts = lookups.gather(REQUEST, client=Aws(**dict.fromkeys(RECORDED, error)))
    assert set(facts.values()) == {Unavailable(expected)}


def test_silence_ends_within_the_patience() -> None:
    released = threading.Event()
    facts = lookups.gather(REQUEST, client=Aws(describe_regions=lambda **_: released.wait(10) and None), patience_s=0.2)
    released.set()
    assert facts["region"] == Unavailable("AWS did not answer within 0.2 seconds")
    assert facts["image"] == ""


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"images": [], "failures": [{"failureCode": "ImageNotFound"}]}, "the registry says ImageNotFound"),
        ({"images": [], "failures": []}, "the registry says nothing about it"),
        (refused("RepositoryNotFoundException"), "registry 763104351884 has no repository ray"),
        (
            refused("AccessDeniedException", "BatchGetImage"),
            Unavailable("not allowed to call BatchGetImage: AccessDeniedException"),
        ),
    ],
)
def test_image(answer: Any, expected: Any) -> None:
    assert lookups.answer(lookups.image_question(IMAGE, Aws(batch_get_image=answer))) == expected


def test_image_of_another_registry_is_not_checked() -> None:
    assert lookups.answer(lookups.image_question("rayproject/ray:2.58.0", Aws())) == Unavailable(
        "only images in Amazon ECR are looked up"
    )


def test_region_that_ec2_does_not_know() -> None:
    assert lookups.gather(REQUEST, client=Aws(describe_regions={"Regions": []}))["region"] == "unknown to EC2"


def test_clients_wait_a_bounded_time() -> None:
    client = lookups.aws_client("ec2", "sa-east-1")
    assert (client.meta.config.connect_timeout, client.meta.config.read_timeout) == (5, 10)
    assert client.meta.config.retries["total_max_attempts"] <= 5


def event(request: str) -> dict:
    return {
        "RequestType": request,
        "PhysicalResourceId": "preflight",
        "ResourceProperties": {
            "ClusterName": "ray-llm-multinode",
            "KubernetesVersion": "1.35",
            "GpuNodeType": "g6.8xlarge",
            "GpuNodeCount": "2",
            "GpuZone": "",
            "SystemNodeType": "m7i.xlarge",
            "SystemNodeCount": "1",
            "Image": IMAGE,
        },
    }


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch):
    def use(**answers: Any) -> None:
        monkeypatch.setenv("AWS_REGION", "sa-east-1")
        monkeypatch.setattr(lookups, "aws_client", Aws(**answers))

    return use


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_good_account_answers_with_a_report_every_time(account, request_type: str) -> None:
    account()
    first = index.handler(event(request_type), None)
    assert first == index.handler(event(request_type), None)
    assert first["PhysicalResourceId"] == "preflight"
    assert first["Data"]["Report"].startswith("Checked: region, instance type, EFA")


def test_quota_zero_stops_the_deployment(account, capsys) -> None:
    account(get_service_quota={"Quota": {"Value": 0.0}})
    with pytest.raises(index.PreflightError, match=r"2 things stand in the way.*L-DB2E81BA.*ask for 100 at https"):
        index.handler(event("Create"), None)
    assert '"status": "wrong"' in capsys.readouterr().out


def test_delete_asks_nothing_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "gather", lambda *_: pytest.fail("asked AWS"))
    assert index.handler(event("Delete"), None) == {"PhysicalResourceId": "preflight"}


def test_tool_prints_a_table_and_says_whether_something_is_wrong(account, monkeypatch, capsys) -> None:
    monkeypatch.delenv("GPU_NODE_TYPE", raising=False)
    account()
    assert tool.main() == 0
    assert "Nothing stands in the way" in capsys.readouterr().out
    account(get_service_quota={"Quota": {"Value": 0.0}})
    assert tool.main() == 1
    printed = capsys.readouterr().out
    assert any(line.split()[:4] == ["vCPU", "quota", "L-DB2E81BA", "wrong"] for line in printed.splitlines())
    facts = lookups.gather(REQUEST)
    monkeypatch.setattr(lookups, "gather", lambda _: dict.fromkeys(facts, Unavailable("NoCredentialsError")))
    assert tool.main() == 2
    assert "Nothing could be checked" in capsys.readouterr().err
    monkeypatch.setenv("GPU_NODE_TYPE", "t3.micro")
    assert tool.main() == 2
    assert "GPU_NODE_TYPE=t3.micro" in capsys.readouterr().err
