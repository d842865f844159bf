"""The execution policies of another cluster, partition or pipeline."""

import json
from pathlib import Path

import pytest

from local.resource_schemas import ROOT
from settings import SETTING_NAMES, SettingsError
from tests.delivery import SOURCE, THREE
from tools import execution_policies
from tools.execution_policies import LIMIT, length, policies, policy


@pytest.mark.parametrize("kind", ["stage", "pipeline"])
def test_default_name_makes_the_documents_as_they_are(kind: str) -> None:
    document = json.loads((ROOT / "docs" / f"execution-policy-{kind}.json").read_text())
    assert policy(kind, cluster="ray-llm-multinode", region="us-east-1") == document


@pytest.mark.parametrize("kind", ["stage", "pipeline"])
@pytest.mark.parametrize("cluster", ["m", "My-Cluster", "M" * 40])
def test_nothing_of_the_default_name_is_left(kind: str, cluster: str) -> None:
    made = policy(kind, cluster=cluster, region="us-east-1")
    assert "ray-llm" not in json.dumps(made)
    assert length(made) <= LIMIT


@pytest.mark.parametrize(
    ("cluster", "sid", "resource"),
    [
        ("My", "Roles", "arn:aws:iam::*:role/My-deliv*"),
        ("My", "Artifacts", "arn:aws:s3:::my-deliv*"),
        ("My", "Mail", "arn:aws:sns:*:*:My-delivery-Notifications*"),
        ("M" * 40, "Handlers", f"arn:aws:lambda:*:*:function:{'M' * 23}*"),
        ("M" * 40, "Artifacts", f"arn:aws:s3:::{'m' * 23}*"),
        ("M" * 40, "Logs", f"arn:aws:logs:*:*:log-group:/{'M' * 40}-delivery*"),
    ],
)
def test_names_are_written_as_the_services_have_them(cluster: str, sid: str, resource: str) -> None:
    made = policy("pipeline", cluster=cluster, region="us-east-1")
    assert [statement["Resource"] for statement in made["Statement"] if statement["Sid"] == sid] == [resource]


def test_check_role_of_a_long_name_is_cut() -> None:
    for cluster, name in (("my", "endpoint-check-*-my"), ("m" * 24, f"endpoint-check-*-{'m' * 23}*")):
        (roles,) = [
            statement["Resource"]
            for statement in policy("stage", cluster=cluster, region="us-east-1")["Statement"]
            if statement["Sid"] == "Roles"
        ]
        assert f"arn:aws:iam::*:role/{name}" in roles


@pytest.mark.parametrize(("region", "partition"), [("sa-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
def test_arns_are_in_the_partition_of_the_region(region: str, partition: str) -> None:
    for kind in ("stage", "pipeline"):
        text = json.dumps(policy(kind, cluster="my", region=region))
        assert text.count("arn:") == text.count(f"arn:{partition}:") > 0


def test_names_fit_as_documented() -> None:
    for kind in ("stage", "pipeline"):
        policy(kind, cluster="m" * 100, region="us-east-1")
        for region in ("cn-north-1", "us-gov-west-1"):
            policy(kind, cluster="m" * 87, region=region)


def test_name_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"CLUSTER_NAME=m{100}: with it the execution policy of the stage has 6\d+ characters"):
        policy("stage", cluster="m" * 100, region="us-gov-west-1")


def test_deployment_without_a_pipeline_has_one_policy() -> None:
    made = policies(context={"stages": {"dev": {"cluster_name": "mine"}}}, environ={})
    assert made == {"stage-dev": policy("stage", cluster="mine", region="sa-east-1")}


def test_pipeline_and_each_of_its_stages_have_their_own() -> None:
    """Stages have their names from cdk.json, whatever the pipeline is called."""
    stages = {**THREE, "prod": {**THREE["prod"], "cluster_name": "live"}}
    made = policies(context={"stages": stages}, environ={**SOURCE, "CLUSTER_NAME": "mine"})
    default = policy("stage", cluster="ray-llm-multinode", region="us-east-1")
    assert made == {
        "stage-dev": default,
        "stage-test": default,
        "stage-prod": policy("stage", cluster="live", region="us-west-2"),
        "pipeline": policy("pipeline", cluster="mine", region="us-east-1"),
    }


def test_policies_are_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(execution_policies, "OUTPUT", tmp_path / "out")
    for name in SETTING_NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in SOURCE.items():
        monkeypatch.setenv(name, value)
    assert execution_policies.main() == 0
    monkeypatch.delenv("SOURCE_BRANCH")
    assert execution_policies.main() == 2
    assert "SOURCE_BRANCH" in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"pipeline.json", "stage-dev.json"}
    for name in SOURCE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLUSTER_NAME", "mine")
    assert execution_policies.main() == 0
    assert "out/stage-dev.json: 5" in capsys.readouterr().out
    (path,) = (tmp_path / "out").iterdir()
    assert json.loads(path.read_text()) == policy("stage", cluster="mine", region="sa-east-1")
