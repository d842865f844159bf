"""What is wrong with a Serve application that will not mend itself. Pure: Ray's own words in, a cause out."""

import re

from .dig import dig, named
from .text import one_line

_KNOWN = (
    (
        re.compile(
            r"(?i)gated ?repo|access to model .* is restricted|awaiting a review|401 client error.*hugging"
            r"|is not a local folder and is not a valid model"
        ),
        "The model cannot be downloaded: it is gated or its name is wrong. Set HF_TOKEN_SECRET to a secret whose token may read "
        "MODEL_SOURCE.",
    ),
    (
        re.compile(
            r"(?i)cuda out of memory|torch\.(?:cuda\.)?OutOfMemoryError|no available memory for the cache"
            r"|larger than the available kv cache|free memory on device .* is less than desired"
        ),
        "The GPU's memory is too small. Lower MAX_MODEL_LEN, raise TENSOR_PARALLEL_SIZE, or use a type with more GPU memory.",
    ),
    (
        re.compile(r"NIXL_ERR_|nixlBackendError|(?i:fi_getinfo|no efa device)"),
        "NIXL could not start the transfer backend. Check KV_BACKEND and that the workers have EFA devices.",
    ),
)


def failure(applications):
    """The cause, or None while every application of Ray's report may still come up."""
    for name, application in named(applications):
        status = dig(application, "status", default="")
        said = " ".join(message for _, message in messages(application))
        hint = next((text for pattern, text in _KNOWN if pattern.search(said)), None)
        words = f"Ray says: {one_line(said, 1500) or 'nothing'}"
        if status == "DEPLOY_FAILED":
            return " ".join(filter(None, (f"Application {name} is DEPLOY_FAILED.", hint, words)))
        # Ray tries again and again what cannot work; a model's start takes minutes each time.
        if hint and status != "RUNNING":
            return f"Application {name} is {status or 'not there'} and will not get further. {hint} {words}"
    return None


def messages(application):
    """(name, message) of the application and its deployments that say something about not being well."""
    found = [("", dig(application, "message", default=""))]
    for name, deployment in named(application, "deployments"):
        if dig(deployment, "status", default="") != "HEALTHY":
            found.append((name, dig(deployment, "message", default="")))
    return [(name, message) for name, message in found if message]


def unfinished(applications):
    """What is not yet RUNNING or HEALTHY, one phrase each."""
    found = []
    for name, application in named(applications):
        if dig(application, "status", default="") != "RUNNING":
            found.append(f"application {name} is {dig(application, 'status', default='') or 'not there'}")
        for deployment, state in named(application, "deployments"):
            if dig(state, "status", default="") != "HEALTHY":
                found.append(f"deployment {deployment} is {dig(state, 'status', default='') or 'not there'}")
    return found
