"""The stand-ins of kubectl, helm and aws refuse nonsense."""

import json
import os
import subprocess
import sys

import pytest
from ministack.services import eks

from local import aws_stand_in, kube_stand_in
from local.emulator import ACCOUNT, ROOT

REPOSITORY = ["--repo", "https://charts.example.com/", "--version", "1.2.3"]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "default"}}
RAY = {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "ray"}}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Ask kubectl's or helm's stand-in for something on an empty cluster, in this process."""
    config = {"current-context": "arn:c", "contexts": [{"name": "arn:c", "context": {"cluster": "arn:cluster/c"}}]}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCAL_KUBE_STATE", str(tmp_path))

    def call(*arguments, manifest=None):
        (tmp_path / "manifest.yaml").write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
        returncode = kube_stand_in.main([*arguments, "--kubeconfig", "kubeconfig"])
        return subprocess.CompletedProcess(arguments, returncode, *capsys.readouterr())

    return call


@pytest.mark.parametrize("tool", ["kubectl", "helm"])
def test_commands_on_the_path_are_the_stand_ins(tool, tmp_path):
    environment = {**os.environ, "LOCAL_KUBE_STATE": str(tmp_path), "LOCAL_PYTHON": sys.executable}
    answer = subprocess.run(
        [ROOT / "local" / "bin" / tool, "explode"], env=environment, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, "invalid choice: 'explode'" in answer.stderr) == (1, True)
    assert json.loads((tmp_path / "calls.jsonl").read_text())["argv"] == [tool, "explode"]


def test_create_get_delete(run):
    assert "stand-in" in run("kubectl", "create", "-f", "manifest.yaml", "--save-config", manifest=POD).stdout
    assert json.loads(run("kubectl", "get", "Pod", "one", "-n", "default", "-o", "json").stdout) == POD
    assert run("kubectl", "delete", "-f", "manifest.yaml", manifest=POD).returncode == 0
    assert "NotFound" in run("kubectl", "get", "Pod", "one", "-n", "default", "-o", "json").stderr


@pytest.mark.parametrize(
    ("arguments", "manifest", "message"),
    [
        (["explode", "-f", "manifest.yaml"], POD, "invalid choice"),
        (["apply", "-f", "manifest.yaml", "--nonsense"], POD, "unrecognized arguments"),
        (["apply"], POD, "must specify -f"),
        (["apply", "-f", "manifest.yaml"], "{not json", "error parsing manifest"),
        (["apply", "-f", "manifest.yaml"], "", "no objects"),
        (["apply", "-f", "manifest.yaml"], [], "must be an object"),
        (["apply", "-f", "manifest.yaml"], {"kind": "Pod"}, "apiVersion not set"),
        (["apply", "-f", "manifest.yaml"], {**POD, "metadata": {}}, "not a valid name"),
        (["apply", "-f", "manifest.yaml"], {**POD, "metadata": {"name": "a", "namespace": "b"}}, 'namespaces "b" not found'),
        (["apply", "-f", "manifest.yaml"], RAY, 'no matches for kind "RayService"'),
        (["delete", "-f", "manifest.yaml"], POD, "NotFound"),
        (["apply", "-f", "manifest.yaml", "--prune"], POD, "without explicitly passing"),
    ],
)
def test_kubectl_refuses(run, arguments, manifest, message):
    answer = run("kubectl", *arguments, manifest=manifest)
    assert answer.returncode == 1
    assert message in answer.stderr


def test_create_twice_is_refused(run):
    assert run("kubectl", "create", "-f", "manifest.yaml", manifest=POD).returncode == 0
    assert "AlreadyExists" in run("kubectl", "create", "-f", "manifest.yaml", manifest=POD).stderr


def test_prune_removes_what_the_manifest_no_longer_has(run):
    labelled = {**POD, "metadata": {**POD["metadata"], "labels": {"prune": "x"}}}
    other = {**labelled, "metadata": {**labelled["metadata"], "name": "two"}}
    run("kubectl", "create", "-f", "manifest.yaml", manifest=json.dumps(labelled) + json.dumps(other))
    assert "pruned" in run("kubectl", "apply", "-f", "manifest.yaml", "--prune", "-l", "prune=x", manifest=other).stdout
    assert run("kubectl", "get", "Pod", "one", "-n", "default", "-o", "json").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["install", "r", "chart", *REPOSITORY], "invalid choice"),
        (["upgrade", "r", "chart", "--install", "--version", "1.2.3"], "needs a repository"),
        (["upgrade", "r", "chart", "--install", "--repo", "https://charts.example.com/"], "exact version"),
        (["upgrade", "r", "chart", "--install", "--repo", "https://charts.example.com/", "--version", "^1"], "exact version"),
        (["upgrade", "Bad_Name", "chart", "--install", *REPOSITORY], "release name is invalid"),
        (["upgrade", "r", "chart", "--timeout", "10 minutes", *REPOSITORY], "--timeout"),
        (["upgrade", "r", "--install", *REPOSITORY], "requires 2 arguments"),
        (["upgrade", "r", "chart", "--values", "manifest.yaml", *REPOSITORY], "not a mapping"),
        (["uninstall", "r"], "not found"),
    ],
)
def test_helm_refuses(run, arguments, message):
    answer = run("helm", *arguments, manifest=["a list"])
    assert answer.returncode == 1
    assert message in answer.stderr


def test_chart_brings_its_kinds(run):
    assert run("helm", "upgrade", "o", "kuberay-operator", "--install", *REPOSITORY).returncode == 0
    assert run("kubectl", "apply", "-f", "manifest.yaml", manifest=RAY).returncode == 0


def test_fails_when_told_to(run, tmp_path):
    (tmp_path / "fail.json").write_text(json.dumps({"match": "upgrade o", "message": "as told"}))
    answer = run("helm", "upgrade", "o", "kuberay-operator", "--install", *REPOSITORY)
    assert (answer.returncode, "as told" in answer.stderr) == (1, True)
    assert run("helm", "list", "--output", "json").stdout.strip() == "[]"


@pytest.mark.parametrize("arguments", [["s3", "ls"], ["eks", "create-cluster"], ["eks", "update-kubeconfig"]])
def test_aws_refuses(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["aws", *arguments])
    with pytest.raises(SystemExit, match="2"):
        aws_stand_in.main()


def test_kubeconfig_of_an_unknown_cluster_is_the_service_error(emulator, tmp_path):
    answer = subprocess.run(
        [ROOT / "local" / "bin" / "aws", "eks", "update-kubeconfig", "--name", "nope", "--kubeconfig", tmp_path / "k"],
        env={**emulator.environment, "LOCAL_KUBE_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 254
    assert "ResourceNotFoundException" in answer.stderr


def test_token_is_one_that_the_emulators_eks_accepts_for_that_cluster_only(emulator, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, emulator.environment[name])
    answer = subprocess.run(
        [ROOT / "local" / "bin" / "aws", "eks", "get-token", "--cluster-name", "mine"],
        env={**emulator.environment, "LOCAL_KUBE_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    token = json.loads(answer.stdout)["status"]["token"]
    assert eks._verify_eks_token(token, "mine").account_id == ACCOUNT
    assert eks._verify_eks_token(token, "another") is None
