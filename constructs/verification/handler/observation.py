"""One look at the cluster."""

import re
from urllib.parse import quote

from . import decisions, pod_failures
from .cluster_error import ClusterError
from .dig import dig, items

DASHBOARD_PORT = 8265
RAY_PODS = "labelSelector=ray.io%2Fcluster"
RAY_WARNINGS = "fieldSelector=involvedObject.apiVersion%3Dray.io%2Fv1%2Ctype%3DWarning"


def observe(api, wanted):
    """The state that `decisions.decide` takes. ClusterError where the API server itself does not answer."""
    pods = ray_pods(api, wanted.namespace, wanted.ray_service)
    return {
        "service": _service(api, wanted),
        "pods": pods,
        "events": items(api.json(f"/api/v1/namespaces/{wanted.namespace}/events?{RAY_WARNINGS}"), "items"),
        "applications": _applications(api, wanted, pods),
        "log": _log(api, wanted, pods),
    }


def ray_pods(api, namespace, ray_service):
    """Every pod of a Ray cluster that KubeRay made for the RayService: others in the namespace are not ours to judge."""
    # KubeRay 1.4 appends five characters to the service's name, earlier versions -raycluster- before them.
    of_the_service = re.compile(rf"{re.escape(ray_service)}(?:-raycluster)?-[a-z0-9]+")
    pods = items(api.json(f"/api/v1/namespaces/{namespace}/pods?{RAY_PODS}"), "items")
    return [pod for pod in pods if of_the_service.fullmatch(decisions.label(pod, "ray.io/cluster"))]


def pod_path(namespace, pod, *, port):
    """Where the API server passes a GET on to a port of a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{quote(pod_failures.name_of(pod))}:{port}/proxy"


def staying(pods, node_type):
    """Running pods of "head" or "worker" that are not on their way out."""
    return [
        pod
        for pod in pods
        if decisions.label(pod, "ray.io/node-type") == node_type
        and not dig(pod, "metadata", "deletionTimestamp")
        and dig(pod, "status", "phase", default="") == "Running"
    ]


def _service(api, wanted):
    try:
        return api.json(f"/apis/ray.io/v1/namespaces/{wanted.namespace}/rayservices/{wanted.ray_service}")
    except ClusterError as error:
        if error.status != 404:
            raise
        return None


def _applications(api, wanted, pods):
    """Ray's own report from the head of the current cluster; None while it does not answer."""
    for head in staying(pods, "head"):
        if decisions.digest_of(head) == wanted.cluster_digest:
            try:
                path = f"{pod_path(wanted.namespace, head, port=DASHBOARD_PORT)}/api/serve/applications/"
                return dig(api.json(path), "applications", default={})
            except ClusterError as error:
                if error.status in (401, 403):
                    raise
    return None


def _log(api, wanted, pods):
    """The last lines of the first crashing container."""
    for pod in pods:
        container = pod_failures.crashing(pod)
        if container:
            path = f"/api/v1/namespaces/{wanted.namespace}/pods/{quote(pod_failures.name_of(pod))}/log"
            try:
                return api.text(f"{path}?container={quote(container)}&previous=true&tailLines=20&limitBytes=8000")
            except ClusterError:
                return ""
    return ""
