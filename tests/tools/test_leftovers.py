"""What survives a destroy is found by tag and by the names that EKS gives; what may not be listed is said so."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from settings import SETTING_NAMES
from tools import leftovers

EMPTY: dict[str, list[dict]] = {
    "describe_network_interfaces": [{"NetworkInterfaces": []}],
    "describe_security_groups": [{"SecurityGroups": []}],
    "describe_volumes": [{"Volumes": []}],
    "describe_load_balancers": [{"LoadBalancers": []}],
    "describe_log_groups": [{"logGroups": []}],
    "get_resources": [{"ResourceTagMappingList": []}],
    "describe_stacks": [{"Stacks": []}],
}


class Aws:
    """Paged answers by operation, or an error in their place; remembers the filters asked with."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked = {**EMPTY, **answers}, []

    def __call__(self, service: str) -> "Aws":
        return self

    def get_paginator(self, operation: str) -> Any:
        def paginate(**arguments: Any) -> Any:
            self.asked.append((operation, arguments))
            answer = self.answers[operation]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return type("Paginator", (), {"paginate": staticmethod(paginate)})

    def describe_tags(self, *, ResourceArns: list[str]) -> dict:
        assert len(ResourceArns) <= 20
        tags = {"arn:ours": "kubernetes.io/cluster/mine", "arn:controllers": "elbv2.k8s.aws/cluster"}
        return {
            "TagDescriptions": [
                {"ResourceArn": arn, "Tags": [{"Key": tags[arn], "Value": "mine"}] if arn in tags else []} for arn in ResourceArns
            ]
        }


def found(**answers: Any) -> list[tuple[str, str]]:
    return list(leftovers.leftovers("mine", Aws(**answers)))


def test_a_clean_account_has_no_leftovers() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            {
                "describe_volumes": [
                    {"Volumes": [{"VolumeId": "v1", "State": "available"}, {"VolumeId": "v2", "State": "deleting"}]}
                ]
            },
            [("volume", "v1")],
        ),
        (
            {
                "describe_stacks": [
                    {
                        "Stacks": [
                            {"StackName": "mine-eks", "StackStatus": "DELETE_FAILED"},
                            {"StackName": "mine-x", "StackStatus": "X"},
                        ]
                    }
                ]
            },
            [("stack", "mine-eks (DELETE_FAILED)")],
        ),
        (
            {
                "describe_load_balancers": [
                    {"LoadBalancers": [{"LoadBalancerArn": f"arn:{n}"} for n in ("ours", "controllers", *range(30))]}
                ]
            },
            [("load balancer", "arn:ours"), ("load balancer", "arn:controllers")],
        ),
        ({"describe_log_groups": [{"logGroups": [{"logGroupName": "/mine-eks/handlers"}]}]}, [("log group", "/mine-eks/handlers")]),
        (
            {"get_resources": [{"ResourceTagMappingList": [{"ResourceARN": "arn:x"}]}]},
            [("anything with the project's tag", "arn:x")],
        ),
    ],
)
def test_survivors(answers: dict, expected: list) -> None:
    assert found(**answers) == expected


def test_names_that_eks_gives_are_asked_for() -> None:
    aws = Aws()
    list(leftovers.leftovers("mine", aws))
    filters = {(entry["Name"], *entry["Values"]) for _, arguments in aws.asked for entry in arguments.get("Filters", [])}
    assert filters == {
        ("tag:cluster.k8s.amazonaws.com/name", "mine"),
        ("description", "Amazon EKS mine"),
        ("group-name", "eks-cluster-sg-mine-*"),
        ("tag-key", "kubernetes.io/cluster/mine"),
    }


def test_what_may_not_be_listed_is_said_and_the_rest_is_listed() -> None:
    denied = ClientError({"Error": {"Code": "AccessDenied"}}, "X")
    silent = EndpointConnectionError(endpoint_url="https://x")
    assert found(
        describe_volumes=denied, describe_stacks=silent, get_resources=[{"ResourceTagMappingList": [{"ResourceARN": "a"}]}]
    ) == [
        ("stack", "not checked: EndpointConnectionError"),
        ("volume", "not checked: AccessDenied"),
        ("anything with the project's tag", "a"),
    ]


def test_exit_status_tells_whether_something_is_left(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "mine")
    aws = Aws()
    monkeypatch.setattr(leftovers.boto3, "client", lambda name, **_: aws)
    assert leftovers.main() == 0
    aws.answers["get_resources"] = [{"ResourceTagMappingList": [{"ResourceARN": "arn:x"}]}]
    assert leftovers.main() == 1
    assert "1 found in sa-east-1 for CLUSTER_NAME=mine" in capsys.readouterr().out
    monkeypatch.setenv("REGION", "nowhere")
    assert leftovers.main() == 2


def test_what_was_not_checked_is_not_counted_as_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    for name in SETTING_NAMES:
        monkeypatch.delenv(name, raising=False)
    denied = ClientError({"Error": {"Code": "AccessDenied"}}, "X")
    aws = Aws(describe_volumes=denied, describe_stacks=[{"Stacks": [{"StackName": "ray-llm-multinode-eks", "StackStatus": "X"}]}])
    monkeypatch.setattr(leftovers.boto3, "client", lambda name, **_: aws)
    assert leftovers.main() == 1
    assert "1 found, 1 of 9 kinds not checked, in sa-east-1 for CLUSTER_NAME=ray-llm-multinode" in capsys.readouterr().out
    monkeypatch.setattr(leftovers.boto3, "client", lambda name, **_: Aws())
    assert leftovers.main() == 0
    assert "0 found in sa-east-1" in capsys.readouterr().out
