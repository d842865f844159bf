"""What cdk.json says to the application, for tools that read settings without the CLI."""

import json
from pathlib import Path
from typing import Any

_CDK_JSON = Path(__file__).parents[1] / "cdk.json"


def cdk_context(path: Path = _CDK_JSON) -> dict[str, Any]:
    """The context of cdk.json as the application gets it: jsii drops what is null on the way."""
    return _without_nulls(json.loads(path.read_text()).get("context", {}))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value
