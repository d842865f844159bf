"""A Helm chart of someone else's, pinned, with this project's values."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

    def mirrored(self, repository: str | None) -> HelmChart:
        """The same chart out of `repository`; None leaves it at its own.

        In an OCI registry every chart is a repository of its own, which the kubectl handler takes as a whole.
        """
        if not repository:
            return self
        return replace(self, repository=f"{repository}/{self.chart}" if repository.startswith("oci://") else repository)
