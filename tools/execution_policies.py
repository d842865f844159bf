"""`python -m tools.execution_policies`: the execution policies of docs/ for the CLUSTER_NAME and REGION of the settings.

With a source configured there is one for the pipeline and one for each stage of cdk.json, otherwise one for the stage of the
settings. Exit status 0 when they are written to cdk.out.policies, 2 when the settings are not usable.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from constructs.bounded_name import bounded_name

from catalog.aws_partition import AwsPartition
from delivery_plan import DeliveryPlan
from settings import Settings, SettingsError
from tools.cdk_context import cdk_context

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "cdk.out.policies"
LIMIT = 6144
"""Characters that IAM takes in a managed policy, white space not counted."""

_TEMPLATE_NAME = "ray-llm-multinode"
# A generated name begins with the stack's, cut to what the service leaves beside the logical id and 12 random characters.
# Of 63 or 64 characters that is some 24; no name that is given is cut to less.
_CUT = 23
_CUT_SERVICES = ("iam", "lambda", "s3")
_PIPELINE_NAME_LIMIT = 100


def policy(kind: str, *, cluster: str, region: str) -> dict[str, Any]:
    """The document of docs/execution-policy-<kind>.json for a cluster, or for its pipeline, in the partition of a region.

    Raises:
        SettingsError: when the name makes the policy longer than IAM takes.
    """
    template = json.loads((ROOT / "docs" / f"execution-policy-{kind}.json").read_text())
    made = _replaced(template, cluster=cluster, partition=AwsPartition.of(region).name)
    if length(made) > LIMIT:
        raise SettingsError(
            [
                f"CLUSTER_NAME={cluster}: with it the execution policy of the {kind} has {length(made)} characters and IAM takes "
                f"{LIMIT}; allowed is a shorter name"
            ]
        )
    return made


def length(document: Mapping[str, Any]) -> int:
    """Characters of a policy as IAM counts them."""
    return len(json.dumps(document, separators=(",", ":")))


def policies(*, context: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Policies by file name.

    Raises:
        SettingsError: with every problem of the settings, or of the first name that is too long.
    """
    plan = DeliveryPlan.load(context=context, environ=environ)
    if plan is None:
        settings = Settings.load(context=context, environ=environ)
        return {f"stage-{settings.stage}": policy("stage", cluster=settings.cluster_name, region=settings.region)}
    # The pipeline hears of its stages from cdk.json alone, so their names may differ from the pipeline's.
    made = {f"stage-{stage.stage}": policy("stage", cluster=stage.cluster_name, region=stage.region) for stage in plan.stages}
    return made | {"pipeline": policy("pipeline", cluster=plan.source.cluster_name, region=plan.source.region)}


def _replaced(value: Any, *, cluster: str, partition: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, cluster=cluster, partition=partition) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, cluster=cluster, partition=partition) for item in value]
    return _named(value, cluster=cluster).replace("arn:aws:", f"arn:{partition}:")


def _named(text: str, *, cluster: str) -> str:
    service = text.split(":")[2] if text.startswith("arn:") else ""
    if service in _CUT_SERVICES:
        cluster = cluster.lower() if service == "s3" else cluster
        return re.sub(rf"{_TEMPLATE_NAME}([a-z-]*)\*?$", lambda match: _cut(cluster + match[1], match[0]), text)
    if service in ("codepipeline", "codebuild"):
        text = text.replace(f"{_TEMPLATE_NAME}-delivery", bounded_name(f"{cluster}-delivery", _PIPELINE_NAME_LIMIT))
    return text.replace(_TEMPLATE_NAME, cluster)


def _cut(name: str, pattern: str) -> str:
    return f"{name[:_CUT]}*" if pattern.endswith("*") or len(name) > _CUT else name


def main() -> int:
    """Write the policies anew and print a line for each."""
    try:
        made = policies(context=cdk_context(), environ=os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    OUTPUT.mkdir(exist_ok=True)
    for stale in OUTPUT.glob("*.json"):
        stale.unlink()
    for name, document in made.items():
        path = OUTPUT / f"{name}.json"
        path.write_text(json.dumps(document, indent=2) + "\n")
        print(f"{OUTPUT.name}/{path.name}: {length(document)} of {LIMIT} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
