"""Environment variables of a container, as the kubelet computes them. Pure but for the config maps and secrets it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "m": 0.001}

Lookup = Callable[[str, str], Mapping[str, str] | None]
"""(ConfigMap or Secret, name) to its data; None where it does not exist."""


class EnvironmentRefused(Exception):
    """A variable refers to something that is not there: the container cannot be created."""


def environment(
    container: Mapping[str, Any], pod: Mapping[str, Any], *, services: Iterable[Mapping[str, Any]], lookup: Lookup
) -> dict[str, str]:
    """Variables of services first, then envFrom, then env. Raises EnvironmentRefused."""
    found = service_variables(pod, services)
    for source in container.get("envFrom", []):
        kind, reference = ("ConfigMap", source["configMapRef"]) if "configMapRef" in source else ("Secret", source["secretRef"])
        data = lookup(kind, reference["name"])
        if data is None and not reference.get("optional"):
            raise EnvironmentRefused(f'{kind.lower()} "{reference["name"]}" not found')
        found |= {source.get("prefix", "") + key: value for key, value in (data or {}).items()}
    for variable in container.get("env", []):
        if "valueFrom" in variable:
            value = _referenced(variable["valueFrom"], container, pod, lookup)
            if value is not None:
                found[variable["name"]] = value
        else:
            found[variable["name"]] = expand(variable.get("value", ""), found)
    return found


def expand(text: str, variables: Mapping[str, str]) -> str:
    """$(NAME) by its value where there is one, $$ by $."""
    return _REFERENCE.sub(lambda match: variables.get(match[1], match[0]) if match[1] else "$", text)


def field_value(path: str, pod: Mapping[str, Any]) -> str:
    """What a fieldRef means."""
    indexed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if indexed:
        return pod["metadata"].get(indexed[1], {}).get(indexed[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        return "\n".join(f'{key}="{value}"' for key, value in sorted(pod["metadata"].get(path[9:], {}).items()))
    renamed = {"spec.serviceAccountName": "serviceAccountName", "spec.nodeName": "nodeName"}
    if path in renamed:
        return pod["spec"].get(renamed[path], "")
    part, _, name = path.partition(".")
    value = pod.get(part, {}).get(name, "")
    if part not in ("metadata", "status") or not isinstance(value, str):
        raise EnvironmentRefused(f"fieldPath {path} is not supported")
    return value


def quantity(text: str) -> float:
    """A Kubernetes quantity as a number."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text)
    if not match or match[2] not in _UNITS:
        raise EnvironmentRefused(f"{text} is no quantity")
    return float(match[1]) * _UNITS[match[2]]


def service_variables(pod: Mapping[str, Any], services: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Those of `kubernetes` always, those of the pod's namespace unless the pod wants none."""
    found: dict[str, str] = {}
    for service in services:
        metadata, address = service["metadata"], service["spec"].get("clusterIP", "None")
        own = metadata["namespace"] == pod["metadata"]["namespace"] and pod["spec"].get("enableServiceLinks", True)
        api = (metadata["namespace"], metadata["name"]) == ("default", "kubernetes")
        ports = service["spec"].get("ports", [])
        if address in ("None", "") or not ports or not (own or api):
            continue
        name = metadata["name"].upper().replace("-", "_")
        found |= {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(ports[0]["port"])}
        found[f"{name}_PORT"] = f"{ports[0].get('protocol', 'TCP').lower()}://{address}:{ports[0]['port']}"
        for port in ports:
            if port.get("name"):
                found[f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
            protocol = port.get("protocol", "TCP")
            prefix = f"{name}_PORT_{port['port']}_{protocol}"
            found[prefix] = f"{protocol.lower()}://{address}:{port['port']}"
            found |= {f"{prefix}_PROTO": protocol.lower(), f"{prefix}_PORT": str(port["port"]), f"{prefix}_ADDR": address}
    return found


def _referenced(source: Mapping[str, Any], container: Mapping[str, Any], pod: Mapping[str, Any], lookup: Lookup) -> str | None:
    if "fieldRef" in source:
        return field_value(source["fieldRef"]["fieldPath"], pod)
    if "resourceFieldRef" in source:
        return _resource(source["resourceFieldRef"], container, pod)
    kind, reference = (
        ("ConfigMap", source["configMapKeyRef"]) if "configMapKeyRef" in source else ("Secret", source["secretKeyRef"])
    )
    data = lookup(kind, reference["name"])
    if data is not None and reference["key"] in data:
        return data[reference["key"]]
    if reference.get("optional"):
        return None
    if data is None:
        raise EnvironmentRefused(f'{kind.lower()} "{reference["name"]}" not found')
    raise EnvironmentRefused(f"couldn't find key {reference['key']} in {kind} {reference['name']}")


def _resource(reference: Mapping[str, Any], container: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    name = reference.get("containerName")
    if name:
        everyone = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
        container = next(other for other in everyone if other["name"] == name)
    part, _, resource = reference["resource"].partition(".")
    value = container.get("resources", {}).get(part, {}).get(resource, "0")
    divisor = quantity(str(reference.get("divisor") or "1")) or 1
    # Rounded up, as the kubelet does.
    return str(int(-(-quantity(value) // divisor)))
