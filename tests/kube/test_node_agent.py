"""The node agent does with pods what a kubelet does, with real processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.kube.kubelet.image_catalogue import MACHINE
from tests.kube.living_cluster import GPU_LABELS, GPU_TAINT, LivingCluster, living_cluster
from tests.waiting import until

WAIT = "while :; do sleep 0.1; done"
# A probe that is slow on a busy machine has not failed.
PATIENTLY = {"periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 60}
UNREADY = "/api/v1/namespaces/default/pods/unready:8000/proxy/hostname"
# Not the environment of this repository, which may lie in the machine's /tmp: a container has its own.
SERVE = [str(Path(sys.executable).resolve()), "-m", "http.server", "8000", "--directory", "/etc"]


@pytest.fixture(scope="module")
def cluster(binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivingCluster]:
    with living_cluster(binaries, tmp_path_factory.mktemp("living")) as running:
        running.node("m7i.xlarge", labels={"role": "system"})
        yield running


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def volume(name: str, source: dict[str, Any], path: str, **mount: Any) -> dict[str, Any]:
    """A container's mount and its pod's volume."""
    return {
        "volumeMounts": [{"name": name, "mountPath": path, **mount}],
        "pod": {"volumes": [{"name": name, **source}]},
    }


# --- what a container sees --------------------------------------------------------------------------------------------------


def test_a_container_sees_its_own_name_address_and_processes(cluster: LivingCluster) -> None:
    cluster.run("own", f"hostname; hostname -i; ls /proc | grep -c '^[0-9]'; ls /sys/class/infiniband | wc -l; {WAIT}")
    cluster.ready("own")
    until(lambda: cluster.log("own").count("\n") == 4, "four lines")
    lines = cluster.log("own").split()
    assert lines == ["own", cluster.pod("own")["status"]["podIP"], lines[2], "0"]
    assert int(lines[2]) < 6


def test_the_machine_is_read_only_and_its_temporary_files_are_hidden(cluster: LivingCluster) -> None:
    (cluster.folder / "secret").write_text("of the machine")
    cluster.run(
        "guest",
        f"cat {cluster.folder}/secret; touch /usr/x /etc/x; touch /tmp/x /run/x && echo written",
        pod={"restartPolicy": "Never"},
    )
    until(lambda: cluster.pod("guest")["status"]["phase"] == "Succeeded", "it ends")
    said = cluster.log("guest")
    assert said.count("No such file or directory") == 1
    assert said.count("Read-only file system") == 2
    assert said.endswith("written\n")


def test_config_maps_appear_as_files_once_they_exist(cluster: LivingCluster) -> None:
    cluster.run(
        "late", f"cat /some/new/folder/key; {WAIT}", **volume("config", {"configMap": {"name": "late"}}, "/some/new/folder")
    )
    until(lambda: cluster.events("late", "FailedMount"), "an event tells what is missing")
    assert cluster.events("late", "FailedMount") == ['MountVolume.SetUp failed for volume "config" : configmap "late" not found']
    waiting = until(lambda: cluster.state("late").get("state", {}).get("waiting"), "its state is reported")
    assert waiting["reason"] == "ContainerCreating"
    cluster.apply(config_map("late", key="value"))
    cluster.ready("late")
    until(lambda: cluster.log("late") == "value", "the file is read")


def test_memory_volumes_have_their_size(cluster: LivingCluster) -> None:
    source = {"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}
    cluster.run("memory", f"df --output=size -m /dev/shm | tail -1; {WAIT}", **volume("memory", source, "/dev/shm"))
    cluster.ready("memory")
    until(lambda: cluster.log("memory").strip() == "64", "the size is that of the limit")


def test_variables_come_from_where_the_pod_says(cluster: LivingCluster) -> None:
    cluster.apply(config_map("settings", COLOUR="blue"))
    environment = [
        {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "BOTH", "value": "$(WHERE)-$(LABEL)-$$(LABEL)-$(UNKNOWN)"},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    cluster.run(
        "variables",
        f'echo "$BOTH $LIMIT $SET_COLOUR $KUBERNETES_SERVICE_HOST"; {WAIT}',
        env=environment,
        envFrom=[{"prefix": "SET_", "configMapRef": {"name": "settings"}}],
        resources={"limits": {"memory": "1Gi"}},
        metadata={"labels": {"app": "a"}},
    )
    cluster.ready("variables")
    expected = "node-1-a-$(LABEL)-$(UNKNOWN) 1024 blue 10.100.0.1\n"
    until(lambda: cluster.log("variables") == expected, expected)


def test_a_reference_to_nothing_is_a_configuration_error(cluster: LivingCluster) -> None:
    reference = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "none", "key": "token"}}}
    cluster.run("refers", WAIT, env=[reference])
    waiting = until(lambda: cluster.state("refers").get("state", {}).get("waiting", {}).get("message"), "a message")
    assert waiting == 'secret "none" not found'
    assert cluster.state("refers")["state"]["waiting"]["reason"] == "CreateContainerConfigError"


def test_an_image_that_is_not_here_is_an_image_pull_error(cluster: LivingCluster) -> None:
    cluster.run("pulls", WAIT, image="quay.io/kuberay/operator:v0.0.1")
    until(lambda: "waiting" in cluster.state("pulls").get("state", {}), "it waits")
    until(lambda: cluster.state("pulls")["state"]["waiting"]["reason"] == "ImagePullBackOff", "it backs off", 20)
    assert "quay.io/kuberay/operator:v0.0.1" in cluster.events("pulls", "Failed")[0]


def test_a_service_account_may_do_what_its_role_allows(cluster: LivingCluster) -> None:
    cluster.kubectl("create", "serviceaccount", "reader")
    cluster.kubectl("create", "role", "reader", "--verb=get", "--resource=configmaps")
    cluster.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader")
    cluster.apply(config_map("readable", key="found"))
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    ask = f'wget -qO- --header "Authorization: Bearer $(cat {folder}/token)" --ca-certificate {folder}/ca.crt'
    path = "https://kubernetes.default.svc/api/v1/namespaces/default"
    found = """grep -c '"kind": "ConfigMap"'"""
    script = f"{ask} {path}/configmaps/readable | {found}; {ask} {path}/secrets || echo refused"
    cluster.run("reader", script, pod={"serviceAccountName": "reader", "restartPolicy": "Never"})
    until(lambda: cluster.pod("reader")["status"]["phase"] == "Succeeded", "it ends")
    assert cluster.log("reader") == "1\nrefused\n"


# --- life -------------------------------------------------------------------------------------------------------------------


def test_init_containers_end_and_sidecars_start_before_the_others(cluster: LivingCluster) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    shell = ["/bin/bash", "-c"]
    cluster.run(
        "ordered",
        f"cat /shared/order; {WAIT}",
        volumeMounts=mounts,
        pod={
            "volumes": [{"name": "shared", "emptyDir": {}}],
            "initContainers": [
                {
                    "name": "beside",
                    "image": MACHINE,
                    "restartPolicy": "Always",
                    "command": [*shell, f"echo beside >> /shared/order; {WAIT}"],
                    "volumeMounts": mounts,
                    "startupProbe": {"exec": {"command": ["grep", "beside", "/shared/order"]}, **PATIENTLY},
                },
                {
                    "name": "first",
                    "image": MACHINE,
                    "command": [*shell, "echo first >> /shared/order"],
                    "volumeMounts": mounts,
                },
            ],
        },
    )
    cluster.ready("ordered")
    until(lambda: cluster.log("ordered", "-c", "main") == "beside\nfirst\n", "the order")
    assert cluster.kubectl("get", "pod", "ordered", "--no-headers").split()[1] == "2/2"


def test_a_container_that_ends_is_started_again_and_then_waits(cluster: LivingCluster) -> None:
    cluster.run("crashes", "echo start; exit 3")
    until(lambda: cluster.state("crashes").get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff", "it backs off")
    state = cluster.state("crashes")
    assert state["restartCount"] == 1
    assert state["lastState"]["terminated"]["exitCode"] == 3
    assert cluster.pod("crashes")["status"]["phase"] == "Running"
    assert cluster.log("crashes", "--previous") == "start\n"


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (4, "Failed")])
def test_a_pod_that_is_never_restarted_ends(cluster: LivingCluster, code: int, phase: str) -> None:
    name = f"ends-{code}"
    cluster.run(name, f"exit {code}", pod={"restartPolicy": "Never"})
    until(lambda: cluster.pod(name)["status"]["phase"] == phase, phase)
    assert cluster.state(name)["state"]["terminated"]["exitCode"] == code


def test_a_command_that_does_not_exist_is_a_start_error(cluster: LivingCluster) -> None:
    cluster.run("nothing", "", command=["no-such-command"], pod={"restartPolicy": "Never"})
    until(lambda: cluster.pod("nothing")["status"]["phase"] == "Failed", "it fails")
    ended = cluster.state("nothing")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert '"no-such-command": executable file not found in $PATH' in ended["message"]


def test_a_failed_liveness_probe_restarts_the_container(cluster: LivingCluster) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}
    cluster.run("sick", f"trap 'exit 0' TERM; {WAIT}", livenessProbe=probe)
    until(lambda: cluster.state("sick").get("restartCount", 0) >= 1, "a restart")
    assert cluster.events("sick", "Unhealthy")[0].startswith("Liveness probe failed")


def test_a_pod_that_handles_termination_is_gone_at_once(cluster: LivingCluster) -> None:
    cluster.run("polite", f"trap 'exit 0' TERM; echo up; {WAIT}", pod={"terminationGracePeriodSeconds": 60})
    cluster.ready("polite")
    until(lambda: cluster.log("polite"), "the trap is set")
    cluster.kubectl("delete", "pod", "polite", "--wait=false")
    cluster.gone("polite", seconds=15)


def test_a_pod_that_ignores_termination_has_its_grace(cluster: LivingCluster) -> None:
    cluster.run("stubborn", "trap '' TERM; sleep 87654", pod={"terminationGracePeriodSeconds": 3})
    cluster.ready("stubborn")
    until(lambda: cluster.processes("sleep 87654"), "it ignores termination")
    began = time.monotonic()
    cluster.kubectl("delete", "pod", "stubborn")
    assert 3 <= time.monotonic() - began < 15
    assert not cluster.processes("sleep 87654")


# --- network ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(cluster: LivingCluster) -> LivingCluster:
    """Service `web`, headless service `each`; two pods behind both, and one that is not ready."""
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "image": MACHINE,
                    "command": SERVE,
                    "ports": [{"name": "http", "containerPort": 8000}],
                    "readinessProbe": {"httpGet": {"path": "/hostname", "port": "http"}, **PATIENTLY},
                }
            ]
        },
    }
    selector = {"matchLabels": {"app": "web"}}
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": selector, "template": template},
        },
        *(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}], **extra},
            }
            for name, extra in (("web", {}), ("each", {"clusterIP": "None"}))
        ),
    )
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    probe = {"exec": {"command": ["false"]}}
    cluster.run("unready", "", command=SERVE, readinessProbe=probe, metadata={"labels": {"app": "web"}})
    until(lambda: cluster.control_plane.kubectl("get", "--raw", UNREADY).returncode == 0, "the unready one answers, too")
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name="

    def ready(service: str) -> int:
        endpoints = [one for item in cluster.api.get(slices + service)["items"] for one in item.get("endpoints") or ()]
        return sum(endpoint["conditions"]["ready"] for endpoint in endpoints)

    until(lambda: ready("web") == ready("each") == 2, "both services have their endpoints")
    return cluster


def ready_addresses(cluster: LivingCluster) -> list[str]:
    pods = cluster.api.get("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb")["items"]
    return sorted(pod["status"]["podIP"] for pod in pods if pod["metadata"]["name"] != "unready")


def test_services_are_reached_by_name_and_lead_to_ready_pods(served: LivingCluster) -> None:
    script = (
        "for i in 1 2 3 4; do wget -qO- web/hostname; done; getent ahostsv4 each.default.svc.cluster.local; getent hosts nobody"
    )
    served.run("asks", script + "; echo end", pod={"restartPolicy": "Never"})
    until(lambda: served.pod("asks")["status"]["phase"] == "Succeeded", "it ends")
    lines = served.log("asks").splitlines()
    names = set(lines[:4])
    assert len(names) == 2
    assert all(name.startswith("web-") for name in names)
    assert sorted({line.split()[0] for line in lines[4:-1]}) == ready_addresses(served)
    assert lines[-1] == "end"


def test_the_api_server_passes_requests_on_to_pods_and_services(served: LivingCluster) -> None:
    assert served.kubectl("get", "--raw", UNREADY) == "unready\n"
    through = served.kubectl("get", "--raw", "/api/v1/namespaces/default/services/web:80/proxy/hostname")
    assert through.startswith("web-")


def test_logs_are_followed_and_cut(cluster: LivingCluster) -> None:
    cluster.run("talks", "for i in 1 2 3; do echo line $i; sleep 0.3; done", pod={"restartPolicy": "Never"})
    until(lambda: cluster.pod("talks")["status"]["phase"] == "Succeeded", "it ends")
    assert cluster.log("talks", "--tail=2") == "line 2\nline 3\n"
    assert cluster.log("talks", "--limit-bytes=4") == "line"
    refused = cluster.control_plane.kubectl("logs", "talks", "--timestamps")
    assert "without times" in refused.stderr


# --- nodes --------------------------------------------------------------------------------------------------------------------


def test_devices_are_those_that_a_plugin_on_the_node_reports(cluster: LivingCluster) -> None:
    name = cluster.node("g6.12xlarge", labels=GPU_LABELS, taints=[GPU_TAINT])

    def allocatable(resource: str) -> str | None:
        return cluster.api.get(f"/api/v1/nodes/{name}")["status"]["allocatable"].get(resource)

    assert allocatable("nvidia.com/gpu") is None
    for plugin, image in {
        "gpus": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "efas": "602401143452.dkr.ecr.sa-east-1.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20",
    }.items():
        specification = {
            "containers": [{"name": "plugin", "image": image}],
            "nodeName": name,
            "tolerations": [{"operator": "Exists"}],
        }
        metadata = {"name": plugin}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": specification})
    until(lambda: (allocatable("nvidia.com/gpu"), allocatable("vpc.amazonaws.com/efa")) == ("4", "1"), "the devices are there")
    cluster.kubectl("delete", "pod", "gpus")
    until(lambda: allocatable("nvidia.com/gpu") == "0", "a plugin that is gone offers nothing")
    cluster.api.delete(f"/api/v1/nodes/{name}")


def test_a_deleted_node_takes_its_processes_with_it(cluster: LivingCluster) -> None:
    name = cluster.node("m7i.xlarge", labels={"role": "short"})
    cluster.run("passenger", "sleep 76543", pod={"nodeName": name})
    until(lambda: cluster.processes("sleep 76543"), "it runs")
    cluster.api.delete(f"/api/v1/nodes/{name}")
    until(lambda: not cluster.processes("sleep 76543"), "its process ends", 10)
    cluster.kubectl("delete", "pod", "passenger", "--force")


def test_pods_are_carried_on_after_the_agent_was_killed(cluster: LivingCluster) -> None:
    cluster.run("survivor", "echo $RANDOM$RANDOM; exec -a survivor-process sleep 65432")
    cluster.ready("survivor")
    first = until(lambda: cluster.log("survivor"), "it says a number")
    cluster.agent.kill()
    until(lambda: not cluster.processes("survivor-process"), "no process outlives the agent", 10)
    cluster.agent.start()
    until(lambda: cluster.processes("survivor-process"), "it runs again")
    until(lambda: cluster.log("survivor") != first, "it says another number")


def test_nothing_of_a_pod_stays_on_the_machine(cluster: LivingCluster) -> None:
    source = {"emptyDir": {"medium": "Memory"}}
    cluster.run("passing", "sleep 54321", **volume("memory", source, "/memory"))
    cluster.ready("passing")
    uid = cluster.pod("passing")["metadata"]["uid"]
    mounts = Path("/proc/self/mounts")
    assert uid in mounts.read_text()
    (folder,) = (cluster.agent.folder / "pods").glob(f"*{uid}")
    cluster.kubectl("delete", "pod", "passing")
    until(lambda: not (folder / "volumes").exists(), "its volumes are removed", 10)
    assert uid not in mounts.read_text()
    assert not cluster.processes("sleep 54321")
