"""Custom::Verification and Custom::RayServiceTeardown, asynchronous resources of the provider framework.

`on_event` notes the time, `is_complete` is asked every 20 seconds. Both keep nothing: a repeated event, a repeated
invocation or two of them at once come to the same answer. An exception's text becomes the reason in the event.

Custom::Verification        last in its stack: complete when the service runs and the evidence is good.
Custom::RayServiceTeardown  between the operator and the RayService: its deletion is complete when no Ray pod is left.
"""

import json
import os
from datetime import UTC, datetime

from . import decisions, evidence, judgement, observation
from .chat_error import ChatError
from .cluster_error import ClusterError
from .kubernetes_api import KubernetesApi
from .pod_failures import age
from .text import one_line, safe
from .wanted import Wanted

# Seconds. The framework gives up after 55 minutes without saying what was missing.
PATIENCE_S = 54 * 60
TEARDOWN_PATIENCE_S = 10 * 60


class VerificationError(Exception):
    """The cause, short and without secrets."""


def on_event(event, context):
    """Start the clock."""
    del context
    physical_id = event.get("PhysicalResourceId") or event["ResourceType"].removeprefix("Custom::")
    return {"PhysicalResourceId": physical_id, "Data": {"StartedAt": now().isoformat()}}


def is_complete(event, context):
    """One look: complete, not yet, or a named failure."""
    del context
    verifies = event["ResourceType"] == "Custom::Verification"
    deletes = event["RequestType"] == "Delete"
    if verifies == deletes:
        return {"IsComplete": True}
    return _torn_down(event) if deletes else _verified(event)


def now():
    """The time, UTC."""
    return datetime.now(UTC)


def _verified(event):
    wanted = Wanted.of_properties(event["ResourceProperties"])
    try:
        outputs, missing = _look(_api(event), wanted)
    except ClusterError as error:
        outputs, missing = None, f"an answer ({error})"
    if outputs:
        return {"IsComplete": True, "Data": outputs}
    print(json.dumps({"waiting for": one_line(missing, 1000)}))
    if _waited(event) > PATIENCE_S:
        raise VerificationError(safe(f"After {PATIENCE_S // 60} minutes still waiting for {missing}."))
    return {"IsComplete": False}


def _look(api, wanted):
    """(outputs, None) when all is well, (None, what is missing) when not yet; VerificationError for what stays wrong."""
    state = observation.observe(api, wanted)
    verdict = decisions.decide(wanted, state, now=now())
    if verdict.kind == "fail":
        raise VerificationError(safe(verdict.text))
    if verdict.kind == "replace":
        for cluster in verdict.clusters:
            api.delete(f"/apis/ray.io/v1/namespaces/{wanted.namespace}/rayclusters/{cluster}")
    if verdict.kind != "serving":
        return None, verdict.text
    if wanted.verify == "off":
        return judgement.unverified_outputs(now=now()), None
    try:
        found = evidence.collect(api, wanted, state)
    except ChatError as error:
        raise VerificationError(safe(error)) from None
    problems = judgement.problems(wanted, found)
    stopping = judgement.stopping(wanted, problems)
    if stopping:
        raise VerificationError(safe(" ".join(problem.text for problem in stopping)))
    return judgement.outputs(wanted, found, problems, now=now()), None


def _torn_down(event):
    """Never fails: a cluster that is gone or silent must not keep the stack."""
    try:
        properties = event["ResourceProperties"]
        pods = decisions.gone(observation.ray_pods(_api(event), properties["Namespace"], properties["RayService"]))
        left = f"pods {', '.join(pods)}" if pods else ""
    except ClusterError as error:
        # No cluster, no pods; a namespace that is gone lists none.
        left = "" if error.status == 404 else f"pods, the cluster does not say ({error})"
    if not left:
        return {"IsComplete": True}
    print(json.dumps({"still there": one_line(left, 1000)}))
    if _waited(event) > TEARDOWN_PATIENCE_S:
        print(json.dumps({"gave up": "may be left; `make leftovers` lists what survives", "what": one_line(left, 1000)}))
        return {"IsComplete": True}
    return {"IsComplete": False}


def _api(event):
    return KubernetesApi.of_cluster(event["ResourceProperties"]["ClusterName"], region=os.environ["AWS_REGION"])


def _waited(event):
    return age((event.get("Data") or {}).get("StartedAt"), now())
