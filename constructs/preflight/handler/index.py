"""Custom::Preflight: stops a deployment that cannot succeed, before anything costs money.

Nothing is made, so a repeated event asks again and gives the same answer, and deleting needs no work. The provider
framework delivers the answer; an exception's text becomes the reason in the CloudFormation event.
"""

import json
import os

from . import checks, lookups
from .request import Request

PHYSICAL_ID = "preflight"


class PreflightError(Exception):
    """Everything that is wrong, each with the way out."""


def handler(event, context):
    """Entry point for the provider framework."""
    del context
    if event["RequestType"] == "Delete":
        return {"PhysicalResourceId": event["PhysicalResourceId"]}
    request = Request.of_properties(event["ResourceProperties"], region=os.environ["AWS_REGION"])
    found = checks.findings(request, lookups.gather(request))
    for finding in found:
        print(json.dumps({"check": finding.check, "status": finding.status, "detail": finding.detail}))
    problem = checks.message(found)
    if problem:
        raise PreflightError(problem)
    return {"PhysicalResourceId": PHYSICAL_ID, "Data": {"Report": checks.summary(found)}}
