"""The two roles through which the pipeline's check reaches a stage."""

from __future__ import annotations

from dataclasses import dataclass

from constructs.bounded_name import bounded_name

_ROLE_NAME_LIMIT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCheck:
    """Both names are fixed before either role exists, because neither stack may import from the other."""

    pipeline_role_arn: str
    stage_role_name: str

    @classmethod
    def between(cls, *, pipeline_name: str, pipeline_account: str, partition: str, cluster: str, region: str) -> EndpointCheck:
        """The pipeline's role and the role of the stage with this cluster in this region; IAM is one for all regions."""
        return cls(
            pipeline_role_arn=f"arn:{partition}:iam::{pipeline_account}:role/{cls.pipeline_role_name(pipeline_name)}",
            stage_role_name=bounded_name(f"endpoint-check-{region}-{cluster}", _ROLE_NAME_LIMIT),
        )

    @staticmethod
    def pipeline_role_name(pipeline_name: str) -> str:
        """The role that the pipeline's checks of all stages run as."""
        return bounded_name(f"{pipeline_name}-endpoint-check", _ROLE_NAME_LIMIT)
