"""Stand-ins for `kubectl` and `helm`: they record what they are asked, keep it like a cluster would, and say so.

Nothing runs behind them. They refuse what the real tools refuse without a server's help (unknown verbs and flags,
broken manifests and values, a chart without repository or version, a namespace or a kind that nobody made), and they
fail on request: LOCAL_KUBE_STATE/fail.json = {"match": "<part of the command>", "message": "<reason>"}.
Log: LOCAL_KUBE_STATE/calls.jsonl. State: LOCAL_KUBE_STATE/<cluster>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

NOTE = "(stand-in: recorded, no Kubernetes API behind it)"
BUILT_IN_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
# The API groups that exist only after a chart brought their definitions.
CHART_OF_GROUP = {"ray.io": "kuberay-operator"}
CLUSTER_SCOPED = ("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass", "StorageClass")


class Refused(Exception):
    """What the real tool would print before it ends with status 1."""


@dataclass(slots=True, kw_only=True)
class Cluster:
    """What one cluster holds: `objects` by "Kind/namespace/name", `releases` by "namespace/name"."""

    file: Path
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    releases: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, *, state: Path, kubeconfig: str) -> Cluster:
        """The cluster of the kubeconfig's current context."""
        if not Path(kubeconfig).is_file():
            raise Refused(f"stat {kubeconfig}: no such file or directory")
        config = yaml.safe_load(Path(kubeconfig).read_text())
        contexts = {context["name"]: context["context"]["cluster"] for context in config.get("contexts") or []}
        if config.get("current-context") not in contexts:
            raise Refused("error: current-context must exist in the kubeconfig")
        file = state / f"{contexts[config['current-context']].rsplit('/', 1)[-1]}.json"
        return cls(file=file, **(json.loads(file.read_text()) if file.exists() else {}))

    def save(self) -> None:
        """Keep the state for the next call."""
        self.file.write_text(json.dumps({"objects": self.objects, "releases": self.releases}, indent=1))

    def key(self, item: dict[str, Any]) -> str:
        """The object's key, after the checks that need no server."""
        for name in ("apiVersion", "kind"):
            if not isinstance(item.get(name), str):
                raise Refused(f"error: error validating data: {name} not set")
        name = (item.get("metadata") or {}).get("name", "")
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9.:]{0,251}[a-z0-9])?", str(name)):
            raise Refused(f"error: metadata.name {name!r} is not a valid name")
        chart = CHART_OF_GROUP.get(item["apiVersion"].split("/")[0])
        if chart and not any(release["chart"] == chart for release in self.releases.values()):
            raise Refused(
                f'error: no matches for kind "{item["kind"]}" in version "{item["apiVersion"]}", ensure CRDs are installed first'
            )
        if item["kind"] in CLUSTER_SCOPED:
            return f"{item['kind']}//{name}"
        namespace = item["metadata"].get("namespace", "default")
        made = {key.rsplit("/", 1)[-1] for key in self.objects if key.startswith("Namespace/")}
        made |= {release["namespace"] for release in self.releases.values()}
        if namespace not in made.union(BUILT_IN_NAMESPACES):
            raise Refused(f'Error from server (NotFound): namespaces "{namespace}" not found')
        return f"{item['kind']}/{namespace}/{name}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(f"error: {message}")


def kubectl(arguments: list[str], state: Path) -> str:
    """create, apply, delete and get."""
    parser = _Parser(prog="kubectl", allow_abbrev=False)
    parser.add_argument("verb", choices=("create", "apply", "delete", "get"))
    parser.add_argument("resource", nargs="*")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("-f", dest="file")
    parser.add_argument("-n", "--namespace", default="default")
    parser.add_argument("-o", choices=("json",))
    parser.add_argument("-l", dest="label")
    for flag in ("--save-config", "--prune"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--validate", choices=("true", "false"))
    asked = parser.parse_args(arguments)
    cluster = Cluster.load(state=state, kubeconfig=asked.kubeconfig)
    if asked.verb == "get":
        return _get(asked, cluster)
    if not asked.file or asked.resource:
        raise Refused("error: must specify -f, and nothing else")
    items = _stream(Path(asked.file).read_text())
    done = []
    if asked.verb == "delete":
        items.reverse()
    for item in items:
        key = cluster.key(item)
        if asked.verb == "create" and key in cluster.objects:
            raise Refused(f'Error from server (AlreadyExists): {item["kind"]} "{item["metadata"]["name"]}" already exists')
        if asked.verb == "delete" and cluster.objects.pop(key, None) is None:
            raise Refused(f'Error from server (NotFound): {item["kind"]} "{item["metadata"]["name"]}" not found')
        if asked.verb != "delete":
            cluster.objects[key] = item
        done.append(f"{key} {asked.verb}d {NOTE}".replace("applyd", "configured"))
        cluster.save()
    if asked.prune:
        _prune(asked.label, cluster, {cluster.key(item) for item in items}, done)
    return "\n".join(done)


def _prune(label: str | None, cluster: Cluster, kept: set[str], done: list[str]) -> None:
    """`apply --prune -l key=value`: objects with the label that the file no longer holds are deleted."""
    if not label:
        raise Refused("error: all resources selected for prune without explicitly passing --all")
    name, _, value = label.partition("=")
    for key, item in list(cluster.objects.items()):
        if key not in kept and name in (labels := item["metadata"].get("labels") or {}) and labels[name] == value:
            del cluster.objects[key]
            done.append(f"{key} pruned {NOTE}")
    cluster.save()


def _get(asked: argparse.Namespace, cluster: Cluster) -> str:
    if len(asked.resource) != 2 or asked.o != "json":
        raise Refused("error: the stand-in knows `get <Kind> <name> -n <namespace> -o json` only")
    kind, name = asked.resource
    key = f"{kind}/{'' if kind in CLUSTER_SCOPED else asked.namespace}/{name}"
    if key not in cluster.objects:
        raise Refused(f'Error from server (NotFound): {kind} "{name}" not found')
    return json.dumps(cluster.objects[key])


def _stream(text: str) -> list[dict[str, Any]]:
    """JSON objects, one after the other."""
    decoder, items, position = json.JSONDecoder(), [], 0
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        try:
            item, position = decoder.raw_decode(text, position)
        except ValueError as error:
            raise Refused(f"error: error parsing manifest: {error}") from error
        if not isinstance(item, dict):
            raise Refused("error: a manifest must be an object")
        items.append(item)
    if not items:
        raise Refused("error: no objects passed to apply")
    return items


def helm(arguments: list[str], state: Path) -> str:
    """upgrade --install, uninstall, list and get values."""
    parser = _Parser(prog="helm", allow_abbrev=False)
    parser.add_argument("verb", choices=("upgrade", "uninstall", "list", "get"))
    parser.add_argument("words", nargs="*")
    for flag in ("--repo", "--values", "--version", "--timeout", "--output"):
        parser.add_argument(flag)
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--kubeconfig", required=True)
    for flag in ("--install", "--create-namespace", "--wait", "--skip-crds", "--atomic"):
        parser.add_argument(flag, action="store_true")
    asked = parser.parse_args(arguments)
    cluster = Cluster.load(state=state, kubeconfig=asked.kubeconfig)
    if asked.verb == "list":
        return json.dumps(
            [
                {**release, "chart": f"{release['chart']}-{release['version']}", "status": "deployed"}
                for release in cluster.releases.values()
                if release["namespace"] == asked.namespace
            ]
        )
    words = {"upgrade": ("release", "chart"), "uninstall": ("release",), "get": ("subject", "release")}[asked.verb]
    if len(asked.words) != len(words):
        raise Refused(f'Error: "helm {asked.verb}" requires {len(words)} arguments')
    named = dict(zip(words, asked.words, strict=True))
    name, chart = named["release"], named.get("chart", "")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?", name):
        raise Refused(f"Error: release name is invalid: {name}")
    if asked.timeout and not re.fullmatch(r"(\d+(h|m|s))+", asked.timeout):
        raise Refused(f'Error: invalid argument "{asked.timeout}" for "--timeout" flag')
    key = f"{asked.namespace}/{name}"
    if asked.verb != "upgrade" and key not in cluster.releases:
        raise Refused(f"Error: {asked.verb}: Release not loaded: {name}: release: not found")
    if asked.verb == "get":
        return json.dumps(cluster.releases[key]["values"])
    if asked.verb == "uninstall":
        del cluster.releases[key]
        cluster.save()
        return f'release "{name}" uninstalled {NOTE}'
    local_chart = (Path(chart) / "Chart.yaml").is_file()
    if not local_chart and not re.fullmatch(r"https://[\w.-]+(/\S*)?", asked.repo or ""):
        raise Refused("Error: a chart needs a repository (--repo https://...)")
    if not (local_chart or re.fullmatch(r"v?\d+\.\d+\.\d+[\w.+-]*", asked.version or "")):
        raise Refused("Error: a chart needs an exact version")
    values = yaml.safe_load(Path(asked.values).read_text()) if asked.values else {}
    if not isinstance(values, dict):
        raise Refused("Error: failed to parse values: not a mapping")
    cluster.releases[key] = {
        "name": name,
        "namespace": asked.namespace,
        "chart": chart,
        "repository": asked.repo,
        "version": asked.version,
        "values": values,
        "revision": cluster.releases.get(key, {}).get("revision", 0) + 1,
    }
    cluster.save()
    return f'Release "{name}" has been upgraded {NOTE}'


def main(arguments: list[str]) -> int:
    """Record the call, fail if told to, else answer."""
    tool, *rest = arguments
    state = Path(os.environ["LOCAL_KUBE_STATE"])
    given = {Path(name).name: Path(name).read_text() for name in rest if name.endswith((".yaml", ".json")) and Path(name).is_file()}
    with (state / "calls.jsonl").open("a") as log:
        log.write(json.dumps({"time": time.time(), "argv": arguments, "files": given}) + "\n")
    try:
        fail = state / "fail.json"
        if fail.exists():
            wanted = json.loads(fail.read_text())
            if wanted["match"] in " ".join([*arguments, *given.values()]):
                raise Refused(wanted["message"])
        print({"kubectl": kubectl, "helm": helm}[tool](rest, state))
    except Refused as refused:
        print(f"{refused} {NOTE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
