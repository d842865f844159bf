"""Whether the service runs, still starts, or never will. Pure: the state of the cluster in, a verdict out.

A state is what `observation.observe` returns: the RayService, the pods of its Ray clusters, KubeRay's warnings, Ray's
applications where the dashboard answers, and the log of a pod that crashes. Nothing is taken for granted about any of them.
"""

import dataclasses
import hashlib
import json

from . import application_failures, operator_events, pod_failures
from .dig import dig, items, named
from .text import one_line
from .verdict import Verdict

DIGEST_ANNOTATION = "ray-llm/cluster-config"


def decide(wanted, state, *, now):
    """The verdict over one state."""
    service = state.get("service")
    if not isinstance(service, dict):
        return Verdict(kind="wait", text=f"the RayService {wanted.ray_service} to exist")
    refused = _invalid(service) or operator_events.refusal(service, items(state, "events"))
    if refused:
        return Verdict(kind="fail", text=refused)
    pods = [pod for pod in items(state, "pods") if label(pod, "ray.io/cluster")]
    leaving = [pod for pod in pods if dig(pod, "metadata", "deletionTimestamp")]
    staying = [pod for pod in pods if pod not in leaving]
    outdated = [pod for pod in staying if digest_of(pod) != wanted.cluster_digest]
    if outdated:
        # KubeRay would leave them as they are, without a word (upgradeStrategy None).
        return Verdict(
            kind="replace",
            text="pods with the earlier configuration of the Ray cluster to go",
            clusters=tuple(sorted({label(pod, "ray.io/cluster") for pod in outdated})),
        )
    for pod in staying:
        cause = pod_failures.failure(pod, now=now, log=state.get("log") or "", waiting_for_others=bool(leaving))
        if cause:
            return Verdict(kind="fail", text=cause)
    verdict = _applications(wanted, state) or _missing(wanted, staying, service)
    if verdict.kind != "wait":
        return verdict
    warning = operator_events.last_warning(service, items(state, "events"), now=now)
    return dataclasses.replace(verdict, text="; ".join(filter(None, (verdict.text, warning))))


def _applications(wanted, state):
    """The verdict that the applications give, or None when all run with the wanted configuration."""
    applications = state.get("applications")
    if not isinstance(applications, dict):
        return Verdict(kind="wait", text=f"Ray's head to answer ({_pods_in_words(state)})")
    if serve_digest(applications) != wanted.serve_digest:
        # What Ray says now is still about the configuration before.
        return Verdict(kind="wait", text="Ray to take up the serve configuration")
    cause = application_failures.failure(applications)
    if cause:
        return Verdict(kind="fail", text=cause)
    unfinished = application_failures.unfinished(applications)
    return Verdict(kind="wait", text=one_line(", ".join(unfinished), 1000)) if unfinished else None


def _missing(wanted, pods, service):
    """Applications run; the rest of what makes a service."""
    running = [pod for pod in pods if dig(pod, "status", "phase", default="") == "Running"]
    if len(running) < wanted.workers + 1:
        return Verdict(kind="wait", text=f"{wanted.workers + 1} running pods ({len(running)} are)")
    status = dig(service, "status", "serviceStatus", default="")
    if status != "Running":
        return Verdict(kind="wait", text=f"the RayService to be Running (it is {status or 'new'})")
    return Verdict(kind="serving")


def _invalid(service):
    """The condition that KubeRay sets after 1.4; `operator_events` has what 1.4 says instead."""
    for condition in items(service, "status", "conditions"):
        if condition.get("reason") == "ValidationFailed":
            return f"KubeRay refuses the RayService: {one_line(dig(condition, 'message', default=''), 1500)}"
    return None


def _pods_in_words(state):
    counts = {}
    for pod in items(state, "pods"):
        phase = dig(pod, "status", "phase", default="Unknown")
        counts[phase] = counts.get(phase, 0) + 1
    return "pods: " + (", ".join(f"{count} {phase}" for phase, count in sorted(counts.items())) or "none")


def label(pod, name):
    """A label's value, "" for none."""
    return dig(pod, "metadata", "labels", name, default="")


def digest_of(pod):
    """The digest of the Ray cluster's configuration that the pod was made with."""
    return dig(pod, "metadata", "annotations", DIGEST_ANNOTATION, default="")


def serve_digest(applications):
    """Digest of the configuration that Ray runs, by Ray's own exact copy of what was submitted.

    The same as the digest made at synth of the applications' name, import_path and args.
    """
    submitted = [dig(application, "deployed_app_config", default={}) for _, application in named(applications)]
    rows = sorted(
        json.dumps([config.get("name"), config.get("import_path"), config.get("args")], sort_keys=True, separators=(",", ":"))
        for config in submitted
    )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


def gone(pods):
    """Names of pods that are still there, for the teardown."""
    return sorted(pod_failures.name_of(pod) for pod in pods if isinstance(pod, dict))
