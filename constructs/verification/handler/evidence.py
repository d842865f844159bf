"""Sends the requests and reads the counters around them."""

import secrets
import time

from . import judgement, metrics
from .chat import chat
from .chat_error import ChatError
from .cluster_error import ClusterError
from .dig import dig
from .observation import pod_path, staying
from .pod_failures import name_of
from .prompts import prompts

REPORT_PORT = 9402
METRICS_PORT = 8080
# Ray exports metrics every ten seconds, the engine logs its own every ten.
METRICS_PATIENCE = 9
METRICS_PAUSE_S = 5
# A differing answer is looked at again with fresh prompts.
ROUNDS = 2
CHAT_ATTEMPTS = 2
CHAT_PAUSE_S = 10
# HTTP statuses by which the application refuses a request, and by which it fails at one. The API server's own refusals
# (401, 403, 429) and silence are no word from the application.
REFUSED = (400, 404, 422)
BROKEN = (500, 502, 503, 504)
# What the API server says for itself: no endpoint yet (a Status object), or none that it reaches (plain text).
API_SERVER = ('"kind":"Status"', "error trying to reach service")


def collect(api, wanted, state, *, sleep=time.sleep):
    """The evidence that `judgement.problems` takes. ClusterError where something does not answer for now."""
    pods = [pod for pod in state["pods"] if not dig(pod, "metadata", "deletionTimestamp")]
    workers = staying(pods, "worker")
    transfers_before, failed_before = _nixl(api, wanted, workers)
    before = _reports(api, wanted, workers)
    first_round, first_token_s, after = _first_round(api, wanted, workers, sleep)
    rounds = [first_round]
    while len(rounds) < ROUNDS and any(first != again for first, again in rounds[-1].values()):
        rounds.append(_round(api, wanted, sleep))
    transfers, failed = _nixl_after(api, wanted, workers, transfers_before, sleep)
    return {
        "placement": judgement.placement(state["applications"], pods),
        "workers": [
            {
                "pod": name_of(pod),
                "devices": len(dig(now, "efa_tx_bytes", default={})),
                "before": _sum(earlier),
                "after": _sum(now),
                "backends": [str(name) for name in dig(now, "nixl_backends", default=[])],
            }
            for pod, earlier, now in zip(workers, before, after, strict=True)
        ],
        "rounds": rounds,
        "first_token_s": first_token_s,
        "nixl": {
            "transfers_before": transfers_before,
            "transfers_after": transfers,
            "failed_before": failed_before,
            "failed_after": failed,
        },
    }


def _first_round(api, wanted, workers, sleep):
    """One round, with the counters read right after its first request."""
    read = {}

    def after_first(seconds):
        read.update(seconds=seconds, reports=_reports(api, wanted, workers))

    answers = _round(api, wanted, sleep, after_first=after_first)
    return answers, read["seconds"], read["reports"]


def _round(api, wanted, sleep, after_first=lambda seconds: None):
    """Both prompts, then both again: {what: (answer, answer)}."""
    long_prompt, same_beginning = prompts(max_model_len=wanted.max_model_len, seed=secrets.token_hex(8))
    first, seconds = _ask(api, wanted, long_prompt, sleep)
    after_first(seconds)
    shared, _ = _ask(api, wanted, same_beginning, sleep)
    first_again, _ = _ask(api, wanted, long_prompt, sleep)
    shared_again, _ = _ask(api, wanted, same_beginning, sleep)
    return {"long prompt": (first, first_again), "prompt with the same beginning": (shared, shared_again)}


def _ask(api, wanted, prompt, sleep):
    for attempt in range(1, CHAT_ATTEMPTS + 1):
        try:
            return chat(api, wanted, prompt)
        except ClusterError as error:
            failure = error
        if any(words in str(failure) for words in API_SERVER):
            raise failure
        if failure.status in REFUSED:
            break
        if attempt < CHAT_ATTEMPTS:
            # A server error may be a replica that just came up.
            sleep(CHAT_PAUSE_S)
    if failure.status in (*REFUSED, *BROKEN):
        raise ChatError(f"The endpoint answers no chat completion: {failure}", status=failure.status)
    raise failure


def _reports(api, wanted, workers):
    return [api.json(f"{pod_path(wanted.namespace, pod, port=REPORT_PORT)}/") for pod in workers]


def _sum(report):
    return sum(value for value in dig(report, "efa_tx_bytes", default={}).values() if isinstance(value, int))


def _nixl(api, wanted, workers):
    pages = [api.text(f"{pod_path(wanted.namespace, pod, port=METRICS_PORT)}/metrics") for pod in workers]
    found = [metrics.nixl(page) for page in pages]
    return sum(transfers for transfers, _ in found), sum(failed for _, failed in found)


def _nixl_after(api, wanted, workers, transfers_before, sleep):
    """Read again until the transfers show, or for 45 seconds."""
    for _ in range(METRICS_PATIENCE):
        transfers, failed = _nixl(api, wanted, workers)
        if transfers > transfers_before:
            break
        sleep(METRICS_PAUSE_S)
    return transfers, failed
