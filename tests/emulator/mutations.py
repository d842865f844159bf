"""Other values in every place of a resource's properties, to see that the comparison would object."""

from collections.abc import Iterator
from typing import Any

from local.account import Account, Row
from local.differences import differences
from local.service_readers import NO_RESOURCE, NOT_SHOWN, READERS


def unseen(account: Account, rows: list[Row]) -> tuple[list[str], int]:
    """Places of AWS resources whose other value the comparison would not notice, and how many places there are."""
    found, places = [], 0
    for row in rows:
        if row.type in NO_RESOURCE or row.type.startswith("Custom::"):
            continue
        observed = READERS[row.type](account, row.physical_id, row.properties)
        shown = {key: value for key, value in row.properties.items() if key not in NOT_SHOWN.get(row.type, ())}
        for place, other in _other_values(shown):
            places += 1
            if not (any(differences(other, observed)) or account._problem(row.type, row.physical_id, row.status, other)):
                found.append(f"{row.type} {row.logical_id} {place}")
    return found, places


def _other_values(value: Any) -> Iterator[tuple[str, Any]]:
    """Copies, each with another value in one place, and that place."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if entries is None:
        yield "", f"other than {value}"
        return
    for key, item in entries:
        for place, other in _other_values(item):
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[key] = other
            yield f"/{key}{place}", copy
