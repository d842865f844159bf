"""CodeBuild projects with every property: ministack keeps half of them. Builds run in local/pipeline_run.py."""

from __future__ import annotations

from typing import Any

from ministack.services import codebuild, s3
from ministack.services.cloudformation import provisioners

from local.api_calls import ServiceError, assumable, parameters
from local.resource_types import Created, Properties, ResourceType, checked

_PRINCIPAL = "codebuild.amazonaws.com"


def install() -> None:
    """Let the service show what it was given."""
    original = codebuild._project_shape
    codebuild._project_shape = lambda project: {**original(project), **project}


def _create(logical_id: str, properties: Properties, stack: str) -> Created:
    name = properties.get("Name") or provisioners._physical_name(stack, logical_id, max_len=255)
    given = _given(name, properties)
    checked(codebuild._create_project(given))
    codebuild._projects[name].update(given)
    return name, _attributes(name, properties)


def _update(name: str, old: Properties, new: Properties) -> None:
    given = _given(name, new)
    project = codebuild._projects[name]
    for key in [key for key in project if key not in ("arn", "created", "lastModified", "badge")]:
        del project[key]
    project.update(given)


def _given(name: str, properties: Properties) -> dict[str, Any]:
    given = parameters("codebuild", "CreateProject", {**properties, "Name": name})
    if not assumable(given["serviceRole"], _PRINCIPAL):
        raise ServiceError(
            "InvalidInputException", f"CodeBuild is not authorized to perform: sts:AssumeRole on {given['serviceRole']}"
        )
    kinds = {given[part]["type"] == "CODEPIPELINE" for part in ("source", "artifacts")}
    if len(kinds) > 1:
        raise ServiceError("InvalidInputException", "Source and artifacts are both of type CODEPIPELINE, or neither is")
    cache = given.get("cache", {})
    if cache.get("type") == "S3" and s3._bucket_owner_account(cache.get("location", "").partition("/")[0]) is None:
        raise ServiceError(
            "InvalidInputException", "Invalid cache: location must be a valid S3 bucket, followed by slash and the prefix"
        )
    return given


def _attributes(name: str, properties: Properties) -> dict[str, str]:
    return {"Arn": codebuild._project_arn(name), "Id": name}


PROJECT = ResourceType(
    name="AWS::CodeBuild::Project",
    create=_create,
    update=_update,
    delete=lambda name, properties: checked(codebuild._delete_project({"name": name})) and None,
    attributes=_attributes,
)
