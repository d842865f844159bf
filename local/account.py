"""What the emulated account really holds, read through the services' own APIs and held against the templates."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from local.differences import Unknown, differences, named
from local.emulator import Emulator
from local.listing import LISTINGS
from local.service_readers import NO_RESOURCE, NOT_SHOWN, READERS

# The services' words for "there is no such thing"; any other error is not evidence of that.
NOT_FOUND = ("NotFound", "NoSuchBucket", "NoSuchEntity", "DoesNotExist", "Unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One resource of one template; `problem` is empty when the service's answer agrees with the template."""

    stack: str
    logical_id: str
    type: str
    physical_id: str
    status: str
    problem: str
    properties: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Reads only. A resource type that no reader knows is a problem, never a pass."""

    emulator: Emulator
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """A boto3 client that talks to the emulator."""
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                endpoint_url=self.emulator.endpoint,
                region_name=self.emulator.region,
                aws_access_key_id=self.emulator.account,
                aws_secret_access_key="local",
            )
        return self._clients[service]

    def outputs(self, assembly: Path) -> dict[str, dict[str, str]]:
        """Outputs by stack."""
        return {stack: self.outputs_of(stack) for stack in templates(assembly, region=self.emulator.region)}

    def outputs_of(self, stack: str) -> dict[str, str]:
        """Outputs of one stack."""
        found = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0].get("Outputs", [])
        return {output["OutputKey"]: output["OutputValue"] for output in found}

    def compare(self, assembly: Path) -> list[Row]:
        """One row per resource of every template, in the order of the templates."""
        exports = {
            export["Name"]: export["Value"]
            for page in self.client("cloudformation").get_paginator("list_exports").paginate()
            for export in page["Exports"]
        }
        rows = []
        for stack, template in templates(assembly, region=self.emulator.region).items():
            pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
            deployed = {entry["LogicalResourceId"]: entry for page in pages for entry in page["StackResourceSummaries"]}
            for logical_id, resource in template["Resources"].items():
                entry = deployed.get(logical_id)
                physical_id, status = (entry["PhysicalResourceId"], entry["ResourceStatus"]) if entry else ("", "missing")
                expected = self._resolve(resource.get("Properties", {}), deployed, exports, stack)
                rows.append(
                    Row(
                        stack=stack,
                        logical_id=logical_id,
                        type=resource["Type"],
                        physical_id=physical_id,
                        status=status,
                        problem=self._problem(resource["Type"], physical_id, status, expected),
                        properties=expected,
                    )
                )
            rows += [
                Row(
                    stack=stack,
                    logical_id=name,
                    type=entry["ResourceType"],
                    problem="not in the template",
                    physical_id=entry["PhysicalResourceId"],
                    status=entry["ResourceStatus"],
                )
                for name, entry in deployed.items()
                if name not in template["Resources"]
            ]
        return rows

    def inventory(self) -> set[str]:
        """Everything the services list, as "kind id": what a destroy must bring back to what was there before."""
        found = {f"{listing.kind} {name}" for listing in LISTINGS for name in listing.names(self.client(listing.service))}
        for file in self.emulator.kube_state.glob("*.json"):
            held = json.loads(file.read_text())
            found |= {f"kubernetes {key}" for group in ("objects", "releases") for key in held.get(group, {})}
        return found

    def gone(self, rows: list[Row]) -> list[Row]:
        """The rows of an earlier compare whose resource a service still shows."""
        return [
            row
            for row in rows
            # What custom resources made is in the inventory.
            if row.type not in NO_RESOURCE
            and not row.type.startswith("Custom::")
            and self._read(row.type, row.physical_id, row.properties)
        ]

    def kube(self, *arguments: str) -> Any:
        """Ask kubectl or helm, real or stand-in; JSON or None."""
        tool, *rest = arguments
        folder, kubeconfig = self.emulator.kube_client
        answer = subprocess.run(
            [folder / tool, *rest, "--kubeconfig", str(kubeconfig)],
            env={**self.emulator.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def _problem(self, type_name: str, physical_id: str, status: str, expected: dict[str, Any]) -> str:
        if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return f"status {status}"
        if type_name in NO_RESOURCE:
            return ""
        if type_name not in READERS:
            return "no reader for this type"
        try:
            observed = self._read(type_name, physical_id, expected)
        except (ClientError, LookupError) as error:
            return f"{type(error).__name__} {error}"
        if observed is None:
            return "the service does not have it"
        ignored = NOT_SHOWN.get(type_name, ())
        return "; ".join(differences({key: value for key, value in expected.items() if key not in ignored}, observed))

    def _read(self, type_name: str, physical_id: str, expected: dict[str, Any]) -> Any:
        """The service's answer, None when it says that there is no such thing."""
        try:
            return READERS[type_name](self, physical_id, expected)
        except ClientError as error:
            if any(word in error.response["Error"]["Code"] for word in NOT_FOUND):
                return None
            raise
        except IndexError:  # an empty list
            return None

    def _resolve(self, value: Any, deployed: Mapping[str, Mapping[str, str]], exports: Mapping[str, str], stack: str) -> Any:
        """Compute the intrinsic functions from the services' answers, not from what the engine made of them."""
        again = lambda item: self._resolve(item, deployed, exports, stack)  # noqa: E731
        if isinstance(value, list):
            return [item for item in (again(entry) for entry in value) if item is not None]
        if not isinstance(value, dict):
            return value
        if len(value) != 1 or not (name := next(iter(value))).startswith(("Ref", "Fn::")):
            return {key: again(item) for key, item in value.items()}
        argument = value[name]
        if name == "Ref":
            pseudo = {
                "AWS::Region": self.emulator.region,
                "AWS::AccountId": self.emulator.account,
                "AWS::Partition": "aws",
                "AWS::URLSuffix": "amazonaws.com",
                "AWS::StackName": stack,
                "AWS::NoValue": None,
            }
            if argument in pseudo:
                return pseudo[argument]
            return deployed[argument]["PhysicalResourceId"] if argument in deployed else Unknown(argument)
        if name == "Fn::GetAtt":
            return self._attribute(deployed[argument[0]], argument[1]) if argument[0] in deployed else Unknown(argument[0])
        argument = again(argument)
        if name == "Fn::Sub" and isinstance(argument, str):
            parts = re.split(r"\$\{([^}!]+)\}", argument)
            return again({"Fn::Join": ["", [{"Ref": part} if number % 2 else part for number, part in enumerate(parts)]]})
        if name == "Fn::ImportValue":
            return exports.get(argument, Unknown(argument))
        if name == "Fn::Join":
            unknown = [part for part in argument[1] if isinstance(part, Unknown)]
            return unknown[0] if unknown else argument[0].join(argument[1])
        if name == "Fn::Base64":
            return argument if isinstance(argument, Unknown) else base64.b64encode(argument.encode()).decode()
        return Unknown(f"{name} {argument}")

    def _attribute(self, resource: Mapping[str, str], attribute: str) -> str:
        """Fn::GetAtt, looked up by its name in the service's answer."""
        answer = self._read(resource["ResourceType"], resource["PhysicalResourceId"], {})
        found = list(named(answer, attribute.lower()))
        return str(found[0]) if found else Unknown(f"{resource['LogicalResourceId']}.{attribute}")


def templates(assembly: Path, *, region: str | None = None) -> dict[str, dict[str, Any]]:
    """The templates of a cloud assembly by stack name; with `region`, those that go there."""
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    return {
        artifact["properties"].get("stackName", name): json.loads((assembly / artifact["properties"]["templateFile"]).read_text())
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
        and (region is None or artifact["environment"].rpartition("/")[2] in (region, "unknown-region"))
    }
