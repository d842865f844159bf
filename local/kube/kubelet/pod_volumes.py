"""The volumes of one pod as folders of this machine."""

from __future__ import annotations

import base64
import ctypes
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.kube.api_client import ApiClient, ApiError
from local.kube.kubelet.node_hardware import NodeHardware
from local.kube.kubelet.pod_environment import EnvironmentRefused, field_value, quantity

_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


class VolumeError(Exception):
    """A volume cannot be mounted yet; the text is that of the kubelet's FailedMount event."""


@dataclass(slots=True, kw_only=True)
class PodVolumes:
    """Config maps, secrets, projected and downward volumes are files as of their mounting, tokens are renewed by `refresh`.

    emptyDir is a folder, with `medium: Memory` a tmpfs of the size limit; hostPath is a folder of the node's simulated disk.
    """

    api: ApiClient
    hardware: NodeHardware
    folder: Path
    _memory: list[Path] = field(default_factory=list, init=False)
    _renewals: list[tuple[float, Callable[[], float]]] = field(default_factory=list, init=False)

    def mount(self, pod: Mapping[str, Any]) -> dict[str, Path]:
        """Folders by volume name. Raises VolumeError; call it again then."""
        self._renewals.clear()
        found = {}
        for volume in pod["spec"].get("volumes", []):
            target = self.folder / volume["name"]
            found[volume["name"]] = target
            if "hostPath" in volume:
                found[volume["name"]] = self.hardware.host_path(volume["hostPath"]["path"])
            elif "emptyDir" in volume:
                self._empty(volume["emptyDir"], target)
            else:
                target.mkdir(parents=True, exist_ok=True)
                sources = volume["projected"]["sources"] if "projected" in volume else [volume]
                for source in sources:
                    self._write(source, target, pod, name=volume["name"])
        return found

    def refresh(self) -> None:
        """Renew the tokens that are due."""
        now = time.monotonic()
        self._renewals = [(now + renew() if now >= due else due, renew) for due, renew in self._renewals]

    def unmount(self) -> None:
        """Give memory volumes back."""
        for path in self._memory:
            _libc.umount2(os.fsencode(path), _MNT_DETACH)
        self._memory.clear()

    def _empty(self, source: Mapping[str, Any], target: Path) -> None:
        if target in self._memory:
            return
        target.mkdir(parents=True, exist_ok=True)
        target.chmod(0o777)
        if source.get("medium") == "Memory":
            limit = f",size={int(quantity(str(source['sizeLimit'])))}" if "sizeLimit" in source else ""
            if _libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", 0, f"mode=1777{limit}".encode()):
                raise VolumeError(f'MountVolume.SetUp failed for volume "{target.name}" : {os.strerror(ctypes.get_errno())}')
            self._memory.append(target)

    def _write(self, source: Mapping[str, Any], target: Path, pod: Mapping[str, Any], *, name: str) -> None:
        namespace = pod["metadata"]["namespace"]
        if "configMap" in source:
            self._object("configmaps", source["configMap"], "name", target, namespace, volume=name)
        elif "secret" in source:
            key = "secretName" if "secretName" in source["secret"] else "name"
            self._object("secrets", source["secret"], key, target, namespace, volume=name)
        elif "serviceAccountToken" in source:
            wanted = source["serviceAccountToken"]

            def renew() -> float:
                seconds = wanted.get("expirationSeconds", 3600)
                _place(target / wanted["path"], self._token(pod, wanted.get("audience"), seconds).encode())
                return seconds * 0.8

            self._renewals.append((time.monotonic() + renew(), renew))
        elif "downwardAPI" in source:
            for item in source["downwardAPI"].get("items", []):
                if "fieldRef" not in item:
                    raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {item["path"]} has no fieldRef')
                try:
                    text = field_value(item["fieldRef"]["fieldPath"], pod)
                except EnvironmentRefused as error:
                    raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from None
                _place(target / item["path"], text.encode())
        else:
            kinds = ", ".join(sorted(set(source) - {"name"}))
            raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : this node has no volumes of kind {kinds}')

    def _object(self, resource: str, source: Mapping[str, Any], key: str, target: Path, namespace: str, *, volume: str) -> None:
        try:
            item = self.api.get(f"/api/v1/namespaces/{namespace}/{resource}/{source[key]}")
        except ApiError as error:
            if error.status == 404 and source.get("optional"):
                return
            reason = f'{resource.removesuffix("s")} "{source[key]}" not found' if error.status == 404 else str(error)
            raise VolumeError(f'MountVolume.SetUp failed for volume "{volume}" : {reason}') from None
        data = contents(item)
        for entry in source.get("items") or [{"key": name, "path": name} for name in data]:
            if entry["key"] in data:
                _place(target / entry["path"], data[entry["key"]])
            elif not source.get("optional"):
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume}" : references non-existent key: {entry["key"]}')

    def _token(self, pod: Mapping[str, Any], audience: str | None, seconds: int) -> str:
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName", "default")
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                **({"audiences": [audience]} if audience else {}),
                "expirationSeconds": seconds,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]},
            },
        }
        try:
            path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
            return self.api.create(path, request)["status"]["token"]
        except ApiError as error:
            raise VolumeError(f"failed to fetch token: {error}") from None


def contents(item: Mapping[str, Any]) -> dict[str, bytes]:
    """The entries of a config map or a secret."""
    if item["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in item.get("data", {}).items()}
    text = {key: value.encode() for key, value in item.get("data", {}).items()}
    return {**text, **{key: base64.b64decode(value) for key, value in item.get("binaryData", {}).items()}}


def _place(path: Path, data: bytes) -> None:
    """Whoever reads it sees all of the old or all of the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.rename(path)
