"""What CloudFormation refuses and ministack lets pass before a change set: an update of a stack that was never created."""

from __future__ import annotations

from ministack.services.cloudformation import _stacks, handlers
from ministack.services.cloudformation.helpers import _error, _p

_NOT_UPDATABLE = ("CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED")


def install() -> None:
    """Wrap CreateChangeSet."""
    original = handlers._ACTION_HANDLERS["CreateChangeSet"]

    def create(parameters: dict) -> tuple:
        name = _p(parameters, "StackName")
        status = (_stacks.get(name) or {}).get("StackStatus")
        if status in _NOT_UPDATABLE:
            return _error("ValidationError", f"Stack:{name} is in {status} state and can not be updated.")
        return original(parameters)

    handlers._ACTION_HANDLERS["CreateChangeSet"] = create
