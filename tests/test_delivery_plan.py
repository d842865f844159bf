"""Which stages a pipeline delivers, in which waves, and what it refuses."""

import json
from typing import Any

import pytest

from delivery_plan import DeliveryPlan, _actions
from settings import SettingsError
from tests.delivery import CONNECTION_ACCOUNT, SOURCE, DeliveryTemplate

EVERYWHERE = {"dev": {"account": "111111111111"}, "test": {"account": "222222222222"}, "prod": {"account": "333333333333"}}


def plan(stages: dict[str, Any], **environ: str) -> DeliveryPlan:
    found = DeliveryPlan.load(context={"stages": stages}, environ={**SOURCE, **environ})
    assert found
    return found


def problems(stages: dict[str, Any], **environ: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        plan(stages, **environ)
    return caught.value.problems


def waves(stages: dict[str, Any]) -> list[list[str]]:
    return [[stage.stage for stage in wave] for wave in plan(stages).waves]


def test_stages_come_one_by_one_in_the_order_of_cdk_json() -> None:
    assert waves(EVERYWHERE) == [["dev"], ["test"], ["prod"]]


def test_stages_of_a_wave_come_together() -> None:
    together = {name: {**stage, "wave": wave} for (name, stage), wave in zip(EVERYWHERE.items(), (1, 2, 2), strict=True)}
    assert waves(together) == [["dev"], ["test", "prod"]]


def test_wave_named_like_a_stage_is_another_wave() -> None:
    assert waves({"dev": EVERYWHERE["dev"], "test": {**EVERYWHERE["test"], "wave": "dev"}}) == [["dev"], ["test"]]


def test_pipeline_lives_where_its_connection_does() -> None:
    loaded = plan(EVERYWHERE, CDK_DEFAULT_ACCOUNT="999999999999")
    assert (loaded.source.partition, loaded.source.account, loaded.source.region) == ("aws", CONNECTION_ACCOUNT, "us-east-1")


def test_settings_beside_the_stages_are_refused() -> None:
    """A pipeline would not hear of them, and what one machine's environment changed, its own synth would change back."""
    where = "it stands beside the stages, where a pipeline does not look; allowed is stages.<name>"
    assert problems({"dev": {"nat_gateways": 2}}, NAT_GATEWAYS="3", REGION="eu-west-1") == (
        f"REGION=eu-west-1: {where}.region in cdk.json",
        f"NAT_GATEWAYS=3: {where}.nat_gateways in cdk.json",
    )
    context = {"stages": {"dev": {}}, "gpu_node_type": "p5.48xlarge"}
    with pytest.raises(SettingsError, match=r"GPU_NODE_TYPE=p5\.48xlarge: it stands beside the stages"):
        DeliveryPlan.load(context=context, environ=SOURCE)


def test_stage_and_pipeline_parallelism_are_refused_with_their_reasons() -> None:
    found = problems({"dev": {}}, STAGE="dev", PIPELINE_PARALLEL_SIZE="2")
    assert [text.split(":")[0] for text in found] == ["PIPELINE_PARALLEL_SIZE=2", "STAGE=dev"]
    assert found[1].endswith("a pipeline delivers all stages of cdk.json; allowed is no STAGE")


def test_plan_comes_again_from_its_own_environment() -> None:
    first = plan(EVERYWHERE, CLUSTER_NAME="other", NOTIFICATION_EMAIL="me@example.com")
    assert first.name == "other-delivery"
    assert DeliveryPlan.load(context={"stages": EVERYWHERE}, environ=first.source.environment) == first


def test_problems_of_all_stages_come_at_once() -> None:
    found = problems({"dev": {}, "test": {"nat_gateways": 9, "cluster_name": "test"}, "prod": {"aproval": True}})
    assert [text.split(":")[0] for text in found] == ["stages.test", "stages.prod.aproval=True"]
    assert "NAT_GATEWAYS=9" in found[0]


def test_bad_dev_stage_hides_nothing_of_the_others_nor_of_the_source() -> None:
    found = problems(
        {"dev": {"gpu_node_type": "g6.xlarge"}, "test": None, "prod": {"verify": "maybe"}}, CLUSTER_NAME="1", SOURCE_BRANCH="a..b"
    )
    assert [text.split("=")[0] for text in found] == [
        "CLUSTER_NAME",
        "SOURCE_BRANCH",
        "stages.dev: GPU_NODE_TYPE",
        "stages.test",
        "stages.prod: VERIFY",
    ]
    assert "stages.test=null: allowed in cdk.json is an object of settings" in found


def test_stage_without_account_is_in_the_pipelines() -> None:
    assert plan({"dev": {}}, CDK_DEFAULT_ACCOUNT="999999999999").stages[0].account == CONNECTION_ACCOUNT


def test_without_a_source_there_is_no_plan() -> None:
    assert DeliveryPlan.load(context={"stages": EVERYWHERE}, environ={"NAT_GATEWAYS": "2", "CLUSTER_NAME": "1"}) is None


def test_nothing_to_deliver_is_refused() -> None:
    assert "nothing to deliver" in problems({})[0]


@pytest.mark.parametrize("stages", ["dev", ["dev"]])
def test_stages_of_another_shape_are_refused(stages: Any) -> None:
    assert f"stages={json.dumps(stages)}: allowed in cdk.json is an object of stages" in problems(stages)[0]


def test_stages_must_not_overwrite_each_other() -> None:
    (problem,) = problems({"dev": {}, "prod": {}})
    assert problem.startswith("stages.prod: it would overwrite stage dev")
    assert "overwrite" in problems({"dev": {"cluster_name": "ray"}, "prod": {"cluster_name": "RAY"}})[0]
    assert plan({"dev": {}, "prod": {"cluster_name": "prod"}})
    assert plan({"dev": {}, "prod": {"region": "eu-west-1"}})


def test_wave_must_not_be_torn() -> None:
    torn = {name: {**stage, "wave": wave} for (name, stage), wave in zip(EVERYWHERE.items(), ("a", "b", "a"), strict=True)}
    (problem,) = problems(torn)
    assert problem.startswith("stages.prod.wave=a: another wave stands between")


def test_waves_are_numbers_however_they_are_written() -> None:
    alike = {name: {**stage, "wave": wave} for (name, stage), wave in zip(EVERYWHERE.items(), (0, 1, "01"), strict=True)}
    assert waves(alike) == [["dev"], ["test", "prod"]]


@pytest.mark.parametrize(("stage", "fits"), [({}, 7), ({"approval": True, "termination_protection": True}, 5)])
def test_wave_is_no_larger_than_codepipeline_takes(stage: dict[str, Any], fits: int) -> None:
    def wide(count: int) -> dict[str, Any]:
        return {f"s{number}": {**stage, "wave": 1, "cluster_name": f"c{number}"} for number in range(count)}

    made = DeliveryTemplate({name: {"region": "us-east-1", **stage} for name, stage in wide(fits).items()}).stages()
    assert list(made)[5:] == ["Wave-1"]
    assert len(made["Wave-1"]) == sum(map(_actions, plan(wide(fits)).stages))
    (problem,) = problems(wide(fits + 1))
    assert problem.startswith(f"stages.s{fits}.wave=1: its {fits + 1} stages have ")


def test_numbers_of_waves_must_rise() -> None:
    (problem,) = problems({"dev": {**EVERYWHERE["dev"], "wave": 10}, "test": {**EVERYWHERE["test"], "wave": 9}})
    assert "in the order 10, 9" in problem


def test_partitions_need_pipelines_of_their_own() -> None:
    (problem,) = problems({"dev": {}, "china": {"region": "cn-north-1"}})
    assert problem.startswith("stages.china: REGION=cn-north-1 is in the partition aws-cn")


def test_stage_that_the_pipeline_cannot_reach_must_verify_itself() -> None:
    (problem,) = problems({"dev": {"public_access_cidrs": "none", "verify": "warn"}})
    assert "PUBLIC_ACCESS_CIDRS=none" in problem
    assert "VERIFY=warn" in problem
    assert plan({"dev": {"public_access_cidrs": ["203.0.113.0/24"], "verify": "strict"}})
