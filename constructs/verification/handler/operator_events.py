"""What KubeRay says in Kubernetes Events about the RayService as it is now. Pure: objects of the Kubernetes API in, words out.

KubeRay 1.4 says nowhere else that it refuses an object. Events outlive by up to an hour what they are about, so each is
held against the time of the last write: the API server notes it in `managedFields`, for every writer.
"""

from .dig import dig, items
from .moment import moment
from .text import one_line

_REFUSALS = ("InvalidRayServiceMetadata", "InvalidRayServiceSpec", "InvalidRayClusterMetadata", "InvalidRayClusterSpec")


def refusal(service, events):
    """KubeRay's own words where it refuses the RayService, or a Ray cluster of it, as they are now; None where it does not."""
    for event in _newest_first(service, events):
        if event.get("reason") in _REFUSALS:
            kind = dig(event, "involvedObject", "kind", default="")
            return f"KubeRay refuses the {kind}: {one_line(dig(event, 'message', default=''), 1500)}"
    return None


def last_warning(service, events, *, now):
    """The newest of KubeRay's other warnings about them, with its age; "" for none. It need not still hold."""
    for event in _newest_first(service, events):
        if event.get("type") == "Warning" and event.get("reason") not in _REFUSALS:
            ago = max(0, int((now - _seen(event)).total_seconds()))
            message = one_line(dig(event, "message", default=""), 600)
            return f"KubeRay's last warning, {ago} s ago: {dig(event, 'reason', default='?')}: {message}"
    return ""


def _newest_first(service, events):
    about = [event for event in events if _is_about(service, event)]
    return sorted(about, key=_seen, reverse=True)


def _is_about(service, event):
    """Whether the event is about the RayService or a Ray cluster of it as they are now."""
    about, seen = dig(event, "involvedObject", default={}), _seen(event)
    if seen is None:
        return False
    if about.get("kind") == "RayService":
        # KubeRay writes the status of what it accepts, so a later write of anyone, itself included, makes the event past.
        # Times are whole seconds. In doubt it is past: KubeRay tries again after a second, and after two, and so on.
        written = _written(service, ("", "status"))
        return written is not None and about.get("uid") == dig(service, "metadata", "uid", default="?") and seen > written
    if about.get("kind") == "RayCluster":
        # Tried once, and maybe within the second in which the RayService was written.
        written = _written(service, ("",))
        return written is not None and about.get("name") in _ray_clusters(service) and seen >= written
    return False


def _ray_clusters(service):
    """Names of the Ray clusters that the RayService uses or prepares."""
    statuses = ("activeServiceStatus", "pendingServiceStatus")
    return [name for status in statuses if (name := dig(service, "status", status, "rayClusterName", default=""))]


def _written(service, subresources):
    """When the RayService was last written, its status included where `subresources` has it; None where nothing says."""
    times = [dig(service, "metadata", "creationTimestamp", default="")]
    for entry in items(service, "metadata", "managedFields"):
        if dig(entry, "subresource", default="") in subresources:
            times.append(dig(entry, "time", default=""))
    return max(filter(None, map(moment, times)), default=None)


def _seen(event):
    """When it was last seen; writers of the newer kind of events fill other fields."""
    for keys in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("metadata", "creationTimestamp")):
        seen = moment(dig(event, *keys))
        if seen:
            return seen
    return None
