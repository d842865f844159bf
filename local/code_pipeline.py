"""CodePipeline, which ministack lacks: pipelines are checked, kept and described. What runs them is local/pipeline_run.py."""

from __future__ import annotations

import re
import time
from typing import Any

from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region
from ministack.services import s3
from ministack.services.cloudformation import provisioners

from local.api_calls import ServiceError, assumable, parameters, serve
from local.resource_types import Created, Properties, ResourceType

_PRINCIPAL = "codepipeline.amazonaws.com"
# Properties of the resource that are no members of the API's pipeline.
_BESIDE = ("ArtifactStores", "DisableInboundStageTransitions", "RestartExecutionOnUpdate", "Tags")
_pipelines = AccountRegionScopedDict()


def install() -> None:
    """Answer the read operations."""
    operations = {
        "GetPipeline": lambda asked: {
            "pipeline": _found(asked["name"])["pipeline"],
            "metadata": {"pipelineArn": _arn(asked["name"])},
        },
        "ListPipelines": lambda asked: {"pipelines": [{"name": name} for name in _pipelines]},
        "ListTagsForResource": lambda asked: {"tags": _found(asked["resourceArn"].rpartition(":")[2])["tags"]},
    }
    serve("codepipeline", operations, target="CodePipeline_20150709")


def exists(arn: str) -> bool:
    """Whether there is a pipeline with this ARN in this account and region."""
    return arn.rpartition(":")[2] in _pipelines and arn == _arn(arn.rpartition(":")[2])


def _arn(name: str) -> str:
    return f"arn:aws:codepipeline:{get_region()}:{get_account_id()}:{name}"


def _found(name: str) -> dict[str, Any]:
    if name not in _pipelines:
        raise ServiceError("PipelineNotFoundException", f"Account '{get_account_id()}' does not have a pipeline with name '{name}'")
    return _pipelines[name]


def _create(logical_id: str, properties: Properties, stack: str) -> Created:
    name = properties.get("Name") or provisioners._physical_name(stack, logical_id, max_len=100)
    if name in _pipelines:
        raise ServiceError("PipelineNameInUseException", f"A pipeline with the name '{name}' already exists in account")
    _put(name, properties, version=1)
    return name, _attributes(name, properties)


def _update(name: str, old: Properties, new: Properties) -> None:
    _put(name, new, version=_found(name)["pipeline"]["version"] + 1)


def _delete(name: str, properties: Properties) -> None:
    _pipelines.pop(name, None)


def _attributes(name: str, properties: Properties) -> dict[str, str]:
    return {"Version": str(_found(name)["pipeline"]["version"])}


def _put(name: str, properties: Properties, *, version: int) -> None:
    declared = {key: value for key, value in properties.items() if key not in _BESIDE}
    if "ArtifactStores" in properties:
        declared["artifactStores"] = {store["Region"]: store["ArtifactStore"] for store in properties["ArtifactStores"]}
    given = parameters(
        "codepipeline", "CreatePipeline", {"pipeline": {**declared, "Name": name}, "tags": properties.get("Tags", [])}
    )
    pipeline = given["pipeline"]
    _check(pipeline)
    _pipelines[name] = {"pipeline": {**pipeline, "version": version}, "tags": given["tags"], "updated": time.time()}


def _check(pipeline: dict[str, Any]) -> None:
    """The documented structure: https://docs.aws.amazon.com/codepipeline/latest/userguide/reference-pipeline-structure.html"""
    if not assumable(pipeline["roleArn"], _PRINCIPAL):
        _refuse("InvalidStructure", f"CodePipeline is not authorized to perform AssumeRole on role {pipeline['roleArn']}")
    if pipeline.get("pipelineType", "V1") == "V1" and pipeline.get("executionMode", "SUPERSEDED") != "SUPERSEDED":
        _refuse("InvalidStructure", f"Pipelines of type V1 have no execution mode {pipeline['executionMode']}")
    stages = pipeline["stages"]
    names = [stage["name"] for stage in stages]
    if len(set(names)) < len(names):
        _refuse("InvalidStageDeclaration", f"Two stages have the same name among {', '.join(names)}")
    made: set[str] = set()
    spaces: set[str] = set()
    for number, stage in enumerate(stages):
        actions = sorted(stage["actions"], key=lambda action: action.get("runOrder", 1))
        labels = [action["name"] for action in actions]
        if not actions or len(set(labels)) < len(labels):
            _refuse("InvalidStageDeclaration", f"Stage {stage['name']} has no action, or two of one name")
        if any((action["actionTypeId"]["category"] == "Source") is not (number == 0) for action in actions):
            _refuse("InvalidStageDeclaration", "The first stage, and no other, should consist of source actions")
        for order in sorted({action.get("runOrder", 1) for action in actions}):
            together = [action for action in actions if action.get("runOrder", 1) == order]
            for action in together:
                _check_action(pipeline, action, made, spaces)
            made |= {artifact["name"] for action in together for artifact in action.get("outputArtifacts", [])}
            spaces |= {action["namespace"] for action in together if "namespace" in action}


def _check_action(pipeline: dict[str, Any], action: dict[str, Any], made: set[str], spaces: set[str]) -> None:
    """What an action takes must come from actions that are through when it begins."""
    for artifact in action.get("inputArtifacts", []):
        if artifact["name"] not in made:
            _refuse(
                "InvalidActionDeclaration",
                f"Input Artifact Bundle {artifact['name']} in action {action['name']} is not declared as Output Artifact Bundle "
                f"in any of the preceding actions",
            )
    for value in action.get("configuration", {}).values():
        for space in re.findall(r"#\{([\w@-]+)\.\w+\}", value):
            if space not in spaces:
                _refuse(
                    "InvalidActionDeclaration", f"Action {action['name']} refers to {space}, a namespace of no preceding action"
                )
    region = action.get("region", get_region())
    stores = pipeline.get("artifactStores", {get_region(): pipeline.get("artifactStore")})
    if not stores.get(region):
        _refuse("InvalidStructure", f"Action {action['name']} is in {region}, for which there is no artifact store")
    bucket = s3._buckets.get(stores[region]["location"])
    if bucket is None or bucket["region"] != region:
        _refuse("InvalidStructure", f"The bucket named {stores[region]['location']} is not located in the {region} AWS Region")


def _refuse(code: str, message: str) -> None:
    raise ServiceError(f"{code}Exception", message)


PIPELINE = ResourceType(name="AWS::CodePipeline::Pipeline", create=_create, update=_update, delete=_delete, attributes=_attributes)
