"""Where the charts come from, and what helm may do to get them."""

import json

import pytest

from catalog.helm_charts import CHARTS

ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


def repositories(templates) -> dict[str, str]:
    charts = [chart["Properties"] for chart in templates.resources("Custom::AWSCDK-EKS-HelmChart")]
    return {chart["Chart"]: chart["Repository"] for chart in charts}


def registry_statements(templates) -> list[dict]:
    """Statements about a registry, of all policies of the stacks with the cluster and the service."""
    statements = [
        statement
        for stack in ("eks", "ray-serve")
        for policy in templates.resources("AWS::IAM::Policy", stack=stack)
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    return [statement for statement in statements if "ecr" in json.dumps(statement["Action"])]


def test_charts_come_from_their_own_repositories(synth) -> None:
    found = repositories(synth())
    assert set(found) == set(CHARTS)
    assert all(address.startswith("https://") for address in found.values())
    assert len(set(found.values())) == len(CHARTS)
    assert registry_statements(synth()) == []


@pytest.mark.parametrize(
    ("mirror", "expected"),
    [
        ("https://charts.example.com/mirror", "https://charts.example.com/mirror"),
        ("http://127.0.0.1:8879", "http://127.0.0.1:8879"),
        # The kubectl handler pulls the whole address and ignores the chart's name.
        ("oci://registry.example.com/charts", "oci://registry.example.com/charts/{}"),
        ("oci://registry.example.com", "oci://registry.example.com/{}"),
    ],
)
def test_a_mirror_serves_every_chart(synth, mirror: str, expected: str) -> None:
    templates = synth(CHART_REPOSITORY=mirror)
    assert repositories(templates) == {chart: expected.format(chart) for chart in CHARTS}
    assert registry_statements(templates) == []


@pytest.mark.parametrize(("path", "prefix"), [("/team/charts", "team/charts/"), ("", "")])
def test_helm_may_pull_the_charts_from_a_private_registry_and_nothing_else(synth, path: str, prefix: str) -> None:
    login, pull = registry_statements(synth(CHART_REPOSITORY=f"oci://{ECR}{path}"))
    assert (login["Action"], login["Resource"]) == ("ecr:GetAuthorizationToken", "*")
    assert pull["Action"] == ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    assert set(pull["Resource"]) == {f"arn:aws:ecr:eu-west-1:123456789012:repository/{prefix}{chart}" for chart in CHARTS}


def test_helm_may_log_in_to_the_public_registry(synth) -> None:
    (login,) = registry_statements(synth(CHART_REPOSITORY="oci://public.ecr.aws/alias"))
    assert login["Action"] == ["ecr-public:GetAuthorizationToken", "sts:GetServiceBearerToken"]


def test_nothing_but_the_address_changes(synth) -> None:
    def rest(templates) -> list[dict]:
        charts = [chart["Properties"] for chart in templates.resources("Custom::AWSCDK-EKS-HelmChart")]
        return [{key: value for key, value in chart.items() if key != "Repository"} for chart in charts]

    assert rest(synth(CHART_REPOSITORY="https://charts.example.com")) == rest(synth())
