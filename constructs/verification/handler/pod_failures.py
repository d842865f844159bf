"""What is wrong with a pod that will not mend itself. Pure: pods as the Kubernetes API returns them, and the time."""

import re

from .dig import dig, items
from .moment import moment
from .text import one_line

# Seconds. Device plugins advertise GPUs and EFA a little after a node is ready, so a pod may be unschedulable for a moment.
UNSCHEDULABLE_GRACE_S = 120
# A registry that does not answer may answer again; one that knows no such image will not.
PULL_GRACE_S = 900
# Time for a person to make a secret that the pod refers to.
CONFIG_GRACE_S = 120
# Restarts in a row. KubeRay restarts a worker once or twice while the head comes up.
CRASHES = 3
LOG_LIMIT = 1200

_NO_SUCH_IMAGE = re.compile(
    r"(?i)not found|manifest unknown|does not exist|denied|unauthorized|forbidden|no basic auth|invalid reference"
    r"|no match for platform"
)
_PULL_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_BACK_OFF = re.compile(r"(?i)back-off (?:(\d+)m)?(\d+)s restarting")
_CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError")


def name_of(pod):
    """The pod's name, or a word for none."""
    return dig(pod, "metadata", "name", default="a pod")


def containers(pod):
    """Status of every container, those that run first included."""
    return items(pod, "status", "initContainerStatuses") + items(pod, "status", "containerStatuses")


def crashing(pod):
    """Name of a container that keeps crashing, or None."""
    for container in containers(pod):
        waits = dig(container, "state", "waiting", "reason", default="") == "CrashLoopBackOff"
        if waits and _restarts(container) >= CRASHES:
            return dig(container, "name", default="a container")
    return None


def _restarts(container):
    """How often in a row a container that backs off has been restarted.

    `restartCount` is of the pod's whole life. The kubelet doubles the back-off of 10 seconds with every restart and forgets
    after ten minutes without one, so its length is the count. Where it is not told, the pod's whole life counts.
    """
    told = _BACK_OFF.search(dig(container, "state", "waiting", "message", default=""))
    if not told:
        return dig(container, "restartCount", default=0)
    seconds = 60 * int(told[1] or 0) + int(told[2])
    return (seconds // 10).bit_length()


def failure(pod, *, now, log="", waiting_for_others):
    """The cause with its way out, or None while the pod may still come up.

    `log` is the end of a crashing container's log. While other pods are on their way out (`waiting_for_others`), a lack
    of resources mends itself.
    """
    return (
        _image(pod, now)
        or _configuration(pod, now)
        or _out_of_memory(pod)
        or _crash(pod, log)
        or (None if waiting_for_others else _unschedulable(pod, now))
    )


def _image(pod, now):
    for container in containers(pod):
        reason = dig(container, "state", "waiting", "reason", default="")
        if reason not in _PULL_REASONS:
            continue
        message = dig(container, "state", "waiting", "message", default="")
        hopeless = reason in ("InvalidImageName", "ErrImageNeverPull") or _NO_SUCH_IMAGE.search(message)
        if hopeless or age(dig(pod, "metadata", "creationTimestamp"), now) > PULL_GRACE_S:
            image = dig(container, "image", default="its image")
            return f"Pod {name_of(pod)} cannot pull {image} ({reason}): {one_line(message, 600)} Check DLC_IMAGE."
    return None


def _configuration(pod, now):
    for container in containers(pod):
        reason = dig(container, "state", "waiting", "reason", default="")
        if reason in _CONFIG_REASONS and age(dig(pod, "metadata", "creationTimestamp"), now) > CONFIG_GRACE_S:
            message = dig(container, "state", "waiting", "message", default="")
            hint = " Create the secret that HF_TOKEN_SECRET names." if re.search(r"(?i)secret\b.*not found", message) else ""
            return f"Pod {name_of(pod)} cannot start ({reason}): {one_line(message, 600)}.{hint}"
    return None


def _out_of_memory(pod):
    for container in containers(pod):
        if "running" in dig(container, "state", default={}):
            # It came back; what it was killed for may lie weeks behind.
            continue
        killed = [dig(container, state, "terminated", "reason", default="") for state in ("state", "lastState")]
        if "OOMKilled" in killed:
            return (
                f"Container {dig(container, 'name', default='?')} of pod {name_of(pod)} was killed at its memory limit "
                "(OOMKilled). Use a node type with more memory."
            )
    return None


def _crash(pod, log):
    container = crashing(pod)
    if container is None:
        return None
    last = f" Its last lines: {one_line(log, LOG_LIMIT)}" if log else ""
    return f"Container {container} of pod {name_of(pod)} keeps crashing (CrashLoopBackOff).{last}"


def _unschedulable(pod, now):
    for condition in items(pod, "status", "conditions"):
        if (condition.get("type"), condition.get("status"), condition.get("reason")) != ("PodScheduled", "False", "Unschedulable"):
            continue
        since = condition.get("lastTransitionTime") or dig(pod, "metadata", "creationTimestamp")
        if age(since, now) > UNSCHEDULABLE_GRACE_S:
            message = one_line(dig(condition, "message", default="no reason given"), 800)
            return (
                f"Pod {name_of(pod)} fits no node: {message} Node groups that are scaled down, other pods that hold the GPUs, or "
                "a device plugin that does not run are the usual causes."
            )
    return None


def age(timestamp, now):
    """Seconds from a Kubernetes timestamp to `now`; 0 for what is no timestamp."""
    made = moment(timestamp)
    return (now - made).total_seconds() if made else 0
