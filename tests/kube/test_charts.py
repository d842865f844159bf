"""Real helm takes the charts out of the repository with the values that the application sends, and every value has effect."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.kube.chart_repository import charts as used_charts
from local.kube.client_caches import client_caches

# The two chart values that the matrix varies are the GPU type and the region's registry.
NAMES = ("defaults", "china", "p5.48xlarge")
PLUGINS = {"nvidia-device-plugin": "nvidia.com/gpu", "aws-efa-k8s-device-plugin": "nvidia.com/gpu"}


@pytest.fixture
def template(binaries, charts, tmp_path: Path):
    """`template(chart)`: the objects of a release, by kind."""

    def rendered_chart(chart: dict[str, Any]) -> dict[str, dict[str, Any]]:
        values = tmp_path / "values.json"
        values.write_text(chart["Values"])
        source = ("--repo", charts.url, "--version", chart["Version"])
        where = ("--namespace", chart["Namespace"], "--values", values)
        command = [binaries.path("helm"), "template", chart["Release"], chart["Chart"], *source, *where]
        environment = {**os.environ, **client_caches(tmp_path)}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return {item["kind"]: item for item in yaml.safe_load_all(run.stdout) if item}

    return rendered_chart


def pod_of(objects: dict[str, Any]) -> dict[str, Any]:
    (kind,) = {"Deployment", "DaemonSet"} & set(objects)
    return objects[kind]["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", NAMES)
def test_values_decide_placement_resources_and_image(rendered, template, name: str) -> None:
    sent = {chart["Chart"]: chart for chart in rendered[name]["charts"]}
    assert set(sent) == {chart.chart for chart in used_charts()}
    for chart in sent.values():
        values = json.loads(chart["Values"])
        pod = pod_of(template(chart))
        (container,) = pod["containers"]
        assert pod["nodeSelector"] == values["nodeSelector"]
        assert container["resources"] == values["resources"]
        assert all(toleration in pod["tolerations"] for toleration in values.get("tolerations", []))
        if "image" in values:
            assert container["image"].startswith(f"{values['image']['repository']}:v")
        if "supportedInstanceLabels" in values:
            (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            (expression,) = term["matchExpressions"]
            assert expression["values"] == values["supportedInstanceLabels"]["values"]
        known = {"nodeSelector", "resources", "tolerations", "image", "supportedInstanceLabels"}
        assert set(values) <= known, "a value that this test does not look at"


@pytest.mark.parametrize("name", NAMES)
def test_the_api_server_takes_every_object(rendered, template, control_plane, name: str) -> None:
    for chart in rendered[name]["charts"]:
        objects = template(chart)
        text = "\n---\n".join(map(json.dumps, objects.values()))
        run = control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.count("(server dry run)") == len(objects)


def test_charts_are_well_formed(binaries, charts) -> None:
    made = sorted((charts.folder / "src").iterdir()) if (charts.folder / "src").exists() else []
    assert len(made) == sum(not origin.startswith("https://") for origin in charts.origins.values())
    for folder in made:
        run = subprocess.run([binaries.path("helm"), "lint", "--strict", folder], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout


def test_operator_comes_with_its_crds_and_the_roles_of_its_module(rendered, template, charts) -> None:
    (sent,) = [chart for chart in rendered["defaults"]["charts"] if chart["Chart"] == "kuberay-operator"]
    objects = template(sent)
    assert {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment", "Service"} <= set(objects)
    assert pod_of(objects)["containers"][0]["image"] == "quay.io/kuberay/operator:v1.4.0"
    for binding in ("ClusterRoleBinding", "RoleBinding"):
        (subject,) = objects[binding]["subjects"]
        assert (subject["name"], subject["namespace"]) == (pod_of(objects)["serviceAccountName"], "kuberay-system")


def test_every_chart_says_where_it_is_from(charts) -> None:
    assert set(charts.origins) == {chart.chart for chart in used_charts()}
    assert all(charts.origins.values())
