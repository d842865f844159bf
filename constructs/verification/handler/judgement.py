"""What the evidence says. Pure: readings and answers in, problems and outputs out."""

from .dig import dig, items, named
from .problem import Problem

# EFA moves nothing while no KV cache does. One block is megabytes for any model served here; keep-alives are not.
MIN_EFA_BYTES = 64 * 1024


def placement(applications, pods):
    """Nodes by phase: {"prefill": [...], "decode": [...]}, by the names that Ray gives the two deployments."""
    nodes = {dig(pod, "status", "podIP", default=""): dig(pod, "spec", "nodeName", default="") for pod in pods}
    found = {"prefill": set(), "decode": set()}
    for _, application in named(applications):
        for name, deployment in named(application, "deployments"):
            phase = name.partition(":")[0].lower()
            for replica in items(deployment, "replicas"):
                if phase in found and dig(replica, "state", default="") == "RUNNING":
                    address = dig(replica, "node_ip", default="")
                    found[phase].add(nodes.get(address) or address or "unknown")
    return {phase: sorted(names) for phase, names in found.items()}


def problems(wanted, evidence):
    """Everything that is not as it must be."""
    found = [*_placement(evidence["placement"]), *_answers(evidence), *_backends(wanted, evidence["workers"])]
    if wanted.kv_backend == "LIBFABRIC":
        found += _efa(evidence["workers"])
    return [*found, *_transfers(evidence["nixl"])]


def stopping(wanted, found):
    """The problems that stop the deployment: with VERIFY=warn those about the transport do not."""
    return [problem for problem in found if wanted.verify == "strict" or problem.part != "transport"]


def efa_bytes(workers):
    """Bytes that the workers' EFA devices sent during the first request."""
    return sum(after - before for before, after in ((worker["before"], worker["after"]) for worker in workers) if after > before)


def outputs(wanted, evidence, found, *, now):
    """The resource's attributes, which are the stack's outputs."""
    transport = [problem.text for problem in found if problem.part == "transport"]
    note = f", NOT CONFIRMED: {' '.join(transport)}"[:600] if transport else ""
    return {
        "PrefillNodes": ", ".join(evidence["placement"]["prefill"]),
        "DecodeNodes": ", ".join(evidence["placement"]["decode"]),
        "KvTransferBackend": f"{wanted.kv_backend}{note}",
        "EfaBytesPerRequest": str(efa_bytes(evidence["workers"])),
        "TimeToFirstToken": f"{evidence['first_token_s']:.2f} s",
        "VerifiedAt": now.isoformat(timespec="seconds"),
    }


def unverified_outputs(*, now):
    """The same attributes where VERIFY=off asked for nothing more than a running service."""
    names = ("PrefillNodes", "DecodeNodes", "KvTransferBackend", "EfaBytesPerRequest", "TimeToFirstToken")
    return {
        **dict.fromkeys(names, "not verified (VERIFY=off)"),
        "VerifiedAt": f"not verified (VERIFY=off), running at {now.isoformat(timespec='seconds')}",
    }


def _placement(nodes):
    missing = [phase for phase in ("prefill", "decode") if not nodes[phase]]
    if missing:
        return [Problem("placement", f"No running replica of {' or '.join(missing)} was found in Ray's report.")]
    shared = sorted(set(nodes["prefill"]) & set(nodes["decode"]))
    if shared:
        return [Problem("placement", f"Prefill and decode share node {', '.join(shared)}, so the KV cache crosses no network.")]
    return []


def _answers(evidence):
    rounds = evidence["rounds"]
    if not all(answer.strip() for answers in rounds for pair in answers.values() for answer in pair):
        return [Problem("answer", "A chat completion came back without a token.")]
    differing = [[name for name, (first, again) in answers.items() if first != again] for answers in rounds]
    # Once may be two tokens that are equally likely; every time is a cache that gives wrong keys and values.
    if differing and all(differing):
        names = " and ".join(sorted({name for names in differing for name in names}))
        return [
            Problem(
                "answer",
                f"At temperature 0 the {names} was answered differently the second time, in {len(rounds)} of {len(rounds)} rounds: "
                "a reused KV cache gives wrong tokens. Check enable_prefix_caching for this model.",
            )
        ]
    return []


def _backends(wanted, workers):
    found = []
    for worker in workers:
        if worker["backends"] != [wanted.kv_backend]:
            names = ", ".join(worker["backends"]) or "no backend"
            found.append(Problem("transport", f"NIXL on {worker['pod']} started {names} instead of {wanted.kv_backend}."))
    return found


def _efa(workers):
    without = [worker["pod"] for worker in workers if not worker["devices"]]
    if without:
        return [Problem("transport", f"No EFA device in {', '.join(without)}.")]
    sent = efa_bytes(workers)
    if sent < MIN_EFA_BYTES:
        return [
            Problem(
                "transport",
                f"The EFA counters are flat: {sent} bytes during a request whose KV cache must cross. It went over TCP.",
            )
        ]
    return []


def _transfers(nixl):
    found = []
    if nixl["transfers_after"] <= nixl["transfers_before"]:
        found.append(Problem("transport", "NIXL reports no transfer during the requests."))
    failed = nixl["failed_after"] - nixl["failed_before"]
    if failed > 0:
        found.append(Problem("transport", f"NIXL reports {failed:g} failed transfers during the requests."))
    return found
