"""Where a pipeline gets the repository from, and whom it tells: its settings beside the stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from settings import PIPELINE_NAMES, SettingsError, read_settings

_SOURCE = tuple(name for name in PIPELINE_NAMES if name.startswith("SOURCE_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySource:
    """A connection with a branch of a repository. Build it with `DeliverySource.load`."""

    cluster_name: str
    connection_arn: str
    repository: str
    branch: str
    notification_email: str | None

    @classmethod
    def load(cls, *, context: Mapping[str, Any], environ: Mapping[str, str]) -> DeliverySource | None:
        """None without any setting of a pipeline: then the CLI deploys one stage by itself.

        Raises:
            SettingsError: for values that are not allowed, and for half a source, which would silently deploy a stage.
        """
        problems: list[str] = []
        values = read_settings(("CLUSTER_NAME", *PIPELINE_NAMES), context=context, environ=environ, problems=problems)
        given = {name: values.get(name.lower(), "...") for name in PIPELINE_NAMES}
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            return None
        if missing := [name for name in _SOURCE if name not in given]:
            shown = ", ".join(f"{name}={value}" for name, value in given.items())
            problems.append(
                f"{shown}: a pipeline needs {', '.join(missing)} as well; allowed is all of {', '.join(_SOURCE)}, or none"
            )
        if problems:
            raise SettingsError(problems)
        return cls(**{name.removeprefix("source_"): value for name, value in values.items()})

    @property
    def partition(self) -> str:
        """The connection's; the pipeline lives where its connection does."""
        return self.connection_arn.split(":")[1]

    @property
    def region(self) -> str:
        """The connection's."""
        return self.connection_arn.split(":")[3]

    @property
    def account(self) -> str:
        """The connection's."""
        return self.connection_arn.split(":")[4]

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that a synth anywhere makes this source from."""
        return {
            "CLUSTER_NAME": self.cluster_name,
            "SOURCE_CONNECTION_ARN": self.connection_arn,
            "SOURCE_REPOSITORY": self.repository,
            "SOURCE_BRANCH": self.branch,
            **({"NOTIFICATION_EMAIL": self.notification_email} if self.notification_email else {}),
        }
