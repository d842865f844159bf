"""`python -m tools.preflight`: the deployment's preflight against the caller's own credentials, before any deployment.

Exit status 0 when nothing stands in the way, 1 when something does, 2 when the settings themselves are not usable or nothing
could be checked.
"""

import os
import sys

from constructs.preflight.handler import checks, lookups
from constructs.preflight.handler.request import Request

from settings import Settings, SettingsError
from tools.cdk_context import cdk_context

_WIDTH = 100


def main() -> int:
    """Print a table and, below it, what to do."""
    try:
        settings = Settings.load(context=cdk_context(), environ=os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    request = Request(
        region=settings.region,
        cluster_name=settings.cluster_name,
        kubernetes_version=settings.k8s_version,
        gpu_node_type=settings.gpu_node_type,
        gpu_node_count=settings.gpu_node_count,
        gpu_zone=settings.gpu_az or "",
        system_node_type=settings.system_node_type,
        system_node_count=settings.system_node_count,
        image=settings.dlc_image,
    )
    found = checks.findings(request, lookups.gather(request))
    for finding in found:
        print(f"{finding.check:24} {finding.status:12} {checks.cut(finding.detail, _WIDTH)}")
    unchecked = [finding.check for finding in found if finding.status == "not checked"]
    if len(unchecked) == len(found):
        print("\nNothing could be checked; are there credentials of the account?", file=sys.stderr)
        return 2
    problem = checks.message(found)
    but = f" as far as it was checked; not checked: {', '.join(unchecked)}" if unchecked else ""
    print(f"\n{problem or f'Nothing stands in the way of this deployment{but}.'}")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
