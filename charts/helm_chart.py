"""A Helm chart of someone else's, pinned, with this project's values."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmChart:
    """What `helm install` needs. `version` is exact; `release` and `namespace` are literal names."""

    chart: str
    repository: str
    version: str
    release: str
    namespace: str
    values: dict[str, Any]
