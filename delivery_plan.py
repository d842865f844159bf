"""What the pipeline delivers, where and in which order: the stages of cdk.json, checked one by one and together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog.aws_partition import AwsPartition
from delivery_source import DeliverySource
from settings import Settings, SettingsError, set_beside_stages, stages_of

# Of a stage of CodePipeline; the library would cut a larger wave in two. Source: CodePipeline quotas, 2026-12-02.
_ACTIONS_OF_A_WAVE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPlan:
    """Waves of stages, in order; stages of one wave are deployed at the same time. Build it with `DeliveryPlan.load`.

    The pipeline lives in the account and region of its source connection, so that every synth, wherever it runs and
    whatever credentials it has, makes the same pipeline.
    """

    source: DeliverySource
    waves: tuple[tuple[Settings, ...], ...]

    @classmethod
    def load(cls, *, context: Mapping[str, Any], environ: Mapping[str, str]) -> DeliveryPlan | None:
        """Every stage of the context with its own settings; None where nothing says that there is a pipeline.

        Only defaults and cdk.json count for a stage: the pipeline synthesizes from the repository alone, and what an
        environment variable or `-c` changed on one machine would be changed back by the pipeline's first run. So a setting
        that stands elsewhere is a problem.

        Raises:
            SettingsError: with the problems of the source and of all stages at once.
        """
        problems: list[str] = []
        source = None
        try:
            source = DeliverySource.load(context=context, environ=environ)
            if source is None:
                return None
        except SettingsError as error:
            problems += error.problems
        problems += set_beside_stages(context=context, environ=environ)
        stages = _stages(context, account=source.account if source else None, problems=problems)
        waves = _waves(stages, problems)
        problems += _shared_names(stages) + _out_of_reach(stages)
        if source:
            problems += _foreign_partitions(stages, source.partition)
        if problems or not source:
            raise SettingsError(problems)
        return cls(source=source, waves=waves)

    @property
    def name(self) -> str:
        """Of the pipeline and of its stack."""
        return f"{self.source.cluster_name}-delivery"

    @property
    def stages(self) -> tuple[Settings, ...]:
        """All stages in the order of cdk.json."""
        return tuple(stage for wave in self.waves for stage in wave)


def reachable_from_outside(stage: Settings) -> bool:
    """Whether the pipeline's builds, whose addresses change, reach the stage's Kubernetes API."""
    return any(cidr.endswith("/0") for cidr in stage.public_access_cidrs)


def _stages(context: Mapping[str, Any], *, account: str | None, problems: list[str]) -> list[Settings]:
    found = stages_of(context, problems)
    if not found:
        problems.append("stages={}: the pipeline has nothing to deliver; allowed in cdk.json is one stage or more")
    stages = []
    for name in found:
        try:
            environ = {"CDK_DEFAULT_ACCOUNT": account} if account else {}
            stages.append(Settings.load(context={"stages": found, "stage": name}, environ=environ))
        except SettingsError as error:
            problems += [text if text.startswith("stages.") else f"stages.{name}: {text}" for text in error.problems]
    return stages


def _waves(stages: list[Settings], problems: list[str]) -> tuple[tuple[Settings, ...], ...]:
    waves: dict[str, list[Settings]] = {}
    last = None
    for stage in stages:
        wave = stage.wave if stage.wave is not None else f"stage {stage.stage}"
        if wave in waves and wave != last:
            problems.append(
                f"stages.{stage.stage}.wave={wave}: another wave stands between it and the other stages of this wave; "
                f"allowed is next to them in cdk.json, whose order is the order of delivery"
            )
        waves.setdefault(wave, []).append(stage)
        last = wave
    numbers = [int(wave) for wave in waves if wave.isdigit()]
    if numbers != sorted(numbers):
        problems.append(
            f"stages: the waves come in the order {', '.join(map(str, numbers))}; allowed in cdk.json, whose order is the order "
            f"of delivery, are rising numbers"
        )
    for name, members in waves.items():
        if (count := sum(map(_actions, members))) > _ACTIONS_OF_A_WAVE:
            problems.append(
                f"stages.{members[-1].stage}.wave={name}: its {len(members)} stages have {count} actions and CodePipeline takes "
                f"{_ACTIONS_OF_A_WAVE} at a time; allowed are fewer stages in a wave"
            )
    return tuple(tuple(wave) for wave in waves.values())


def _actions(stage: Settings) -> int:
    """Two for each of three stacks; review and approval; termination protection; the check."""
    return 6 + 2 * stage.approval + stage.termination_protection + reachable_from_outside(stage)


def _shared_names(stages: list[Settings]) -> list[str]:
    problems = []
    seen: dict[tuple[str | None, str, str], str] = {}
    for stage in stages:
        # IAM takes two names of roles that differ in case for the same.
        key = (stage.account, stage.region, stage.cluster_name.lower())
        if key in seen:
            problems.append(
                f"stages.{stage.stage}: it would overwrite stage {seen[key]}, whose CLUSTER_NAME={stage.cluster_name} is in the "
                f"same account {stage.account} and region {stage.region}; allowed is another cluster_name, region or account"
            )
        seen.setdefault(key, stage.stage)
    return problems


def _foreign_partitions(stages: list[Settings], partition: str) -> list[str]:
    return [
        f"stages.{stage.stage}: REGION={stage.region} is in the partition {AwsPartition.of(stage.region).name} and the connection "
        f"in {partition}; allowed is one pipeline for each partition"
        for stage in stages
        if AwsPartition.of(stage.region).name != partition
    ]


def _out_of_reach(stages: list[Settings]) -> list[str]:
    """Without the pipeline's own check, a stage is only verified by itself."""
    return [
        f"stages.{stage.stage}: the pipeline cannot reach its Kubernetes API (PUBLIC_ACCESS_CIDRS="
        f"{','.join(stage.public_access_cidrs) or 'none'}) to check the endpoint, and VERIFY={stage.verify} lets a stage through "
        f"that does not answer; allowed is VERIFY=strict, or an endpoint open to 0.0.0.0/0"
        for stage in stages
        if not reachable_from_outside(stage) and stage.verify != "strict"
    ]
