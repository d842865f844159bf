"""A pod's phase and conditions out of its containers' states. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from local.kube.kubelet.clock import now


class _Container(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def running(self) -> bool: ...
    @property
    def exit_code(self) -> int | None: ...

    role: str
    ready: bool
    started: bool
    restarts: int


def phase(containers: Sequence[_Container], *, restart_policy: str) -> str:
    """Pending until the main containers have been started, Running while one runs or will, then Succeeded or Failed."""
    main = [container for container in containers if container.role == "main"]
    codes = [container.exit_code for container in main]
    failed_init = any(container.role == "init" and container.exit_code not in (None, 0) for container in containers)
    if restart_policy == "Never" and failed_init:
        return "Failed"
    if all(code is not None for code in codes):
        if restart_policy == "Never" or (restart_policy == "OnFailure" and not any(codes)):
            return "Failed" if any(codes) else "Succeeded"
        return "Running"
    begun = any(container.running or container.exit_code is not None or container.restarts for container in main)
    return "Running" if begun else "Pending"


def initialized(containers: Sequence[_Container]) -> bool:
    """Whether the main containers may start."""
    return all(
        container.exit_code == 0 if container.role == "init" else container.started
        for container in containers
        if container.role != "main"
    )


def conditions(
    containers: Sequence[_Container], *, previous: Sequence[dict[str, Any]], done: bool, network: bool, gates: Sequence[str]
) -> list[dict[str, Any]]:
    """The kubelet's conditions; the time of one that stays as it was stays, too. `done`: the pod has ended."""
    initial = done or initialized(containers) or any(c.role == "main" and (c.running or c.restarts) for c in containers)
    unready = [c.name for c in containers if c.role != "init" and not c.ready]
    said = f"containers with unready status: [{' '.join(unready)}]"
    uninitialized = [c.name for c in containers if c.role == "init" and c.exit_code != 0]
    others = {condition["type"]: condition["status"] for condition in previous}
    gates_open = all(others.get(gate) == "True" for gate in gates)
    ready = not unready and not done
    reason = "PodCompleted" if done else "ContainersNotReady"
    wanted = [
        ("PodReadyToStartContainers", network and not done, "", ""),
        (
            "Initialized",
            initial,
            "ContainersNotInitialized",
            f"containers with incomplete status: [{' '.join(uninitialized)}]",
        ),
        ("ContainersReady", ready, reason, said),
        ("Ready", ready and gates_open, reason if not ready else "ReadinessGatesNotReady", said if not ready else ""),
    ]
    return [_condition(*entry, previous=previous) for entry in wanted]


def _condition(name: str, true: bool, reason: str, message: str, *, previous: Sequence[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": name, "status": "True" if true else "False"}
    # Named even where empty: a patch leaves a field alone that it does not name.
    made |= {"reason": None, "message": None} if true else {"reason": reason or None, "message": message or None}
    before = next((condition for condition in previous if condition["type"] == name), None)
    same = before is not None and before["status"] == made["status"]
    made["lastTransitionTime"] = before["lastTransitionTime"] if before and same else now()
    return made
