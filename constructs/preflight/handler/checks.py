"""The preflight's decisions: facts in, findings out. Nothing here talks to AWS.

A fact is either its value or Unavailable, and a check over an unavailable fact is "not checked": the preflight only
stops a deployment on evidence.
"""

from .finding import Finding
from .quota import quota_of
from .unavailable import Unavailable

# The Ray head takes 8 GiB, the rest is for the operator, CoreDNS, metrics and what Kubernetes keeps.
SYSTEM_NODE_MIN_MIB = 12 * 1024
# Below CloudFormation's limit of 4 KB for an answer, with room for what the provider framework adds.
MESSAGE_LIMIT = 3000


def findings(request, facts):
    """Every finding about `request`, in the order in which a person would fix them."""
    return [
        _region(request, facts["region"]),
        _offering(request, facts["zones"], facts["elsewhere"]),
        _efa(request, facts["types"]),
        *_quotas(request, facts),
        _kubernetes(request, facts["kubernetes"]),
        _image(request, facts["image"]),
        _system_node(request, facts["types"]),
    ]


def message(found):
    """One text with everything that is wrong, numbered, then what was not checked; None when nothing is wrong."""
    wrong = [finding for finding in found if finding.status == "wrong"]
    if not wrong:
        return None
    head = "1 thing stands" if len(wrong) == 1 else f"{len(wrong)} things stand"
    parts = [f"{head} in the way of this deployment."]
    parts += [f"({number}) {finding.check}: {finding.detail}" for number, finding in enumerate(wrong, start=1)]
    return cut(" ".join([*parts, _unchecked(found)]).strip(), MESSAGE_LIMIT)


def summary(found):
    """One line for a stack output."""
    checked = [finding.check for finding in found if finding.status != "not checked"]
    return cut(f"Checked: {', '.join(checked) or 'nothing'}. {_unchecked(found)}".strip(), 1000)


def cut(text, limit):
    """`text` with its middle left out where it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def _unchecked(found):
    unchecked = [f"{finding.check} ({finding.detail})" for finding in found if finding.status == "not checked"]
    return f"Not checked: {'; '.join(unchecked)}." if unchecked else ""


def _finding(check, fact, decide):
    if isinstance(fact, Unavailable):
        return Finding(check=check, status="not checked", detail=fact.reason)
    ok, detail = decide(fact)
    return Finding(check=check, status="ok" if ok else "wrong", detail=detail)


def _region(request, fact):
    def decide(status):
        enabled = status in ("opt-in-not-required", "opted-in")
        way_out = f"enable it at https://console.aws.amazon.com/billing/home#/account, or choose another region (it is {status})"
        return enabled, status if enabled else f"REGION={request.region} is not enabled in this account; {way_out}."

    return _finding("region", fact, decide)


def _offering(request, fact, elsewhere):
    def decide(zones):
        offered = f"offered in {', '.join(zones)}"
        if not zones:
            # Only improves the text, so it may be missing.
            regions = (
                "" if isinstance(elsewhere, Unavailable) or not elsewhere else f" Regions that offer it: {', '.join(elsewhere)}."
            )
            return False, (
                f"GPU_NODE_TYPE={request.gpu_node_type} is not offered in REGION={request.region}; choose another of the two."
                f"{regions}"
            )
        if request.gpu_zone and request.gpu_zone not in zones:
            return (
                False,
                f"GPU_NODE_TYPE={request.gpu_node_type} is {offered}, not in GPU_AZ={request.gpu_zone}; choose one of these.",
            )
        return True, offered

    return _finding("instance type", fact, decide)


def _efa(request, fact):
    name = request.gpu_node_type
    if isinstance(fact, dict) and name not in fact:
        # Said once, by the check of what the region offers.
        fact = Unavailable(f"EC2 describes no {name} in {request.region}")

    def decide(types):
        if not types[name]["efa"]:
            return False, f"GPU_NODE_TYPE={name} has no Elastic Fabric Adapter by EC2's word; choose a type that has one."
        return True, f"{name} has EFA"

    return _finding("EFA", fact, decide)


def _quotas(request, facts):
    """One finding for each quota that the node groups count against."""
    groups = {}
    for name, count in request.node_groups:
        groups.setdefault(quota_of(name), []).append((name, count))
    return [_quota(request, facts, quota, nodes) for quota, nodes in groups.items()]


def _quota(request, facts, quota, nodes):
    names = " + ".join(f"{count} x {name}" for name, count in nodes)
    if quota is None:
        return Finding(check="vCPU quota", status="not checked", detail=f"no quota is known here for {names}")
    check = f"vCPU quota {quota.code}"
    limit, types, running = facts[quota.code], facts["types"], facts["running"]
    if isinstance(types, dict) and not all(name in types for name, _ in nodes):
        types = Unavailable(f"EC2 does not know the vCPUs of {names}")
    missing = next((fact for fact in (limit, types) if isinstance(fact, Unavailable)), None)
    if missing:
        return Finding(check=check, status="not checked", detail=missing.reason)
    needed = sum(types[name]["vcpus"] * count for name, count in nodes)
    # Without the running instances the check is still worth having: a limit below the need alone is certain.
    used = 0 if isinstance(running, Unavailable) else running.get(quota.code, 0)
    if needed + used <= limit:
        note = f", what already runs is not known: {running.reason}" if isinstance(running, Unavailable) else ""
        return Finding(check=check, status="ok", detail=f"{needed} needed, {used} in use, limit {limit:g}{note}")
    detail = (
        f'{names} need {needed} vCPUs, {used} are in use, and "{quota.name}" allows {limit:g} in {request.region}; '
        f"ask for {needed + used} at {quota_link(request.region, quota)}"
    )
    return Finding(check=check, status="wrong", detail=detail)


def quota_link(region, quota):
    """Where a person asks for more."""
    domain = "amazonaws.cn" if region.startswith("cn-") else "aws.amazon.com"
    return f"https://{region}.console.{domain}/servicequotas/home/services/ec2/quotas/{quota.code}"


def _kubernetes(request, fact):
    def decide(versions):
        if request.kubernetes_version in versions:
            return True, f"{request.kubernetes_version} is offered"
        return (
            False,
            f"EKS does not offer K8S_VERSION={request.kubernetes_version} here; it offers {', '.join(versions) or 'none'}.",
        )

    return _finding("Kubernetes version", fact, decide)


def _image(request, fact):
    def decide(problem):
        return not problem, f"DLC_IMAGE={request.image}: {problem}; check its tag and region." if problem else "found"

    return _finding("image", fact, decide)


def _system_node(request, fact):
    def decide(types):
        name = request.system_node_type
        if name not in types:
            return False, f"EC2 does not know SYSTEM_NODE_TYPE={name} in REGION={request.region}; m7i.xlarge is the default."
        row = types[name]
        if "x86_64" not in row["architectures"]:
            return False, f"SYSTEM_NODE_TYPE={name} is not x86-64, which the image needs; m7i.xlarge is the default."
        if row["memory_mib"] < SYSTEM_NODE_MIN_MIB:
            return False, (
                f"SYSTEM_NODE_TYPE={name} has {row['memory_mib'] / 1024:g} GiB of memory; the Ray head needs 8 GiB beside the "
                f"operator and the system pods, so choose {SYSTEM_NODE_MIN_MIB // 1024} GiB or more, such as m7i.xlarge."
            )
        return True, f"{name} has {row['memory_mib'] / 1024:g} GiB"

    return _finding("system node", fact, decide)
