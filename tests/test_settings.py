"""Every setting: default, precedence, what is refused and how the message reads."""

import json
from dataclasses import FrozenInstanceError, fields
from datetime import date

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from settings import SETTING_NAMES, Settings, SettingsError

TODAY = date(2026, 12, 2)


def load(context: dict | None = None, **environ: str) -> Settings:
    return Settings.load(context=context or {}, environ=environ)


def problems(context: dict | None = None, **environ: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(context, **environ)
    return caught.value.problems


def test_defaults() -> None:
    settings = load()
    assert {field.name: getattr(settings, field.name) for field in fields(settings)} == {
        "cluster_name": "ray-llm-multinode",
        "region": "sa-east-1",
        "k8s_version": "1.35",
        "system_node_type": "m7i.xlarge",
        "system_node_count": 1,
        "gpu_node_type": "g6.8xlarge",
        "gpu_node_count": 2,
        "gpu_nodegroup_name": "gpu-workers",
        "gpu_az": None,
        "dlc_image": "763104351884.dkr.ecr.sa-east-1.amazonaws.com/ray:serve-llm-cuda-v1.0",
        "kuberay_version": "1.4.0",
        "chart_repository": None,
        "ray_version": "2.58.0",
        "ray_service_name": "ray-llm",
        "namespace": "inference",
        "model_id": "qwen3.5-9b",
        "model_source": "Qwen/Qwen3.5-9B",
        "hf_token_secret": None,
        "prefill_replicas": 1,
        "decode_replicas": 1,
        "tensor_parallel_size": 1,
        "max_model_len": 4096,
        "kv_backend": "LIBFABRIC",
        "verify": "strict",
        "nat_gateways": 1,
        "public_access_cidrs": ("0.0.0.0/0",),
        "stage": "dev",
        "stage_is_configured": True,
        "account": None,
        "approval": False,
        "wave": None,
        "termination_protection": False,
    }


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        load().region = "us-east-1"  # type: ignore[misc]


def test_precedence_defaults_stage_environment_context() -> None:
    stages = {"stages": {"dev": {"max_model_len": 2048, "verify": "warn", "nat_gateways": 2}}}
    assert load(stages).max_model_len == 2048
    assert load(stages, MAX_MODEL_LEN="3000").max_model_len == 3000
    assert load({**stages, "max_model_len": "5000"}, MAX_MODEL_LEN="3000").max_model_len == 5000
    assert load(stages, MAX_MODEL_LEN="3000").verify == "warn"


def test_stage_is_chosen_by_environment_or_context() -> None:
    stages = {"stages": {"dev": {}, "prod": {"nat_gateways": 3, "account": "123456789012"}}}
    assert load(stages).nat_gateways == 1
    assert load(stages, STAGE="prod").nat_gateways == 3
    assert load({**stages, "stage": "prod"}).account == "123456789012"


def test_account_comes_from_the_cli() -> None:
    assert load(CDK_DEFAULT_ACCOUNT="210987654321").account == "210987654321"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("CLUSTER_NAME", "1cluster", "a letter, then letters, digits and -"),
        ("CLUSTER_NAME", "under_score", "a letter, then letters, digits and -"),
        ("CLUSTER_NAME", "x" * 101, "at most 100 characters"),
        ("REGION", "mars", "an AWS region name"),
        ("REGION", "us-east-9", "DLC_IMAGE"),
        ("K8S_VERSION", "1.31", "ended its support"),
        ("K8S_VERSION", "1.99", "does not offer it"),
        ("K8S_VERSION", "latest", "does not offer it"),
        ("SYSTEM_NODE_TYPE", "m7g.xlarge", "Arm processor"),
        ("SYSTEM_NODE_TYPE", "t3.medium", "GiB of memory"),
        ("SYSTEM_NODE_TYPE", "c7i.xlarge", "8 GiB of memory"),
        ("SYSTEM_NODE_TYPE", "big", "an EC2 instance type"),
        ("SYSTEM_NODE_COUNT", "0", "from 1 to 100"),
        ("SYSTEM_NODE_COUNT", "two", "from 1 to 100"),
        ("GPU_NODE_TYPE", "g6.xlarge", "g6.8xlarge"),
        ("GPU_NODE_TYPE", "g5.2xlarge", "g5.8xlarge"),
        ("GPU_NODE_TYPE", "p3.2xlarge", "near it are"),
        ("GPU_NODE_COUNT", "1", "from 2 to 100"),
        ("GPU_NODEGROUP_NAME", "a" * 64, "at most 63"),
        ("GPU_NODEGROUP_NAME", "system", "not system"),
        ("GPU_AZ", "us-east-1a", "it is no zone of REGION=sa-east-1"),
        ("GPU_AZ", "sa-east-1", "an availability zone name"),
        ("DLC_IMAGE", "ray", "registry/repository with :tag"),
        ("KUBERAY_VERSION", "1.7.0", "finalizer"),
        ("KUBERAY_VERSION", "1.3.2", "from 1.4.0"),
        ("CHART_REPOSITORY", "charts.example.com", "https:// or oci://"),
        ("CHART_REPOSITORY", "http://charts.example.com", "only on the loopback"),
        ("CHART_REPOSITORY", "http://localhost.example.com/x", "only on the loopback"),
        ("CHART_REPOSITORY", "https://user:password@charts.example.com", "without credentials"),
        (
            "CHART_REPOSITORY",
            "oci://registry.example.com/Charts",
            "kuberay-operator, nvidia-device-plugin, aws-efa-k8s-device-plugin",
        ),
        ("CHART_REPOSITORY", "oci://", "https:// or oci://"),
        ("RAY_VERSION", "2.58", "exact Ray version"),
        ("RAY_VERSION", "2.5\u0668.0", "exact Ray version"),
        ("SYSTEM_NODE_TYPE", "m7i.0xlarge", "an EC2 instance type"),
        ("DLC_IMAGE", "a..b:::/c:d", "registry/repository with :tag"),
        ("MODEL_SOURCE", "s3://bucket/model", "private one cannot be read"),
        ("NAMESPACE", "kube-foo", "creates and deletes its namespace"),
        ("CDK_DEFAULT_ACCOUNT", "abc", "12 digits"),
        ("RAY_SERVICE_NAME", "r" * 48, "48 characters and KubeRay takes at most 47"),
        ("RAY_SERVICE_NAME", "1ray", "a lower-case letter"),
        ("NAMESPACE", "Inference", "a DNS label"),
        ("NAMESPACE", "kube-system", "creates and deletes its namespace"),
        ("MODEL_ID", "my model", "letters, digits and"),
        ("MODEL_SOURCE", "Qwen3.5", "Hugging Face id"),
        ("HF_TOKEN_SECRET", "hf_AbCdEf", "the name of a Kubernetes Secret"),
        ("PREFILL_REPLICAS", "0", "from 1 to 100"),
        ("DECODE_REPLICAS", "-1", "from 1 to 100"),
        ("TENSOR_PARALLEL_SIZE", "2", "has 1 GPU and a replica cannot span nodes"),
        ("PIPELINE_PARALLEL_SIZE", "2", "does not start with pipeline parallelism"),
        ("MAX_MODEL_LEN", "12", "from 1024"),
        ("KV_BACKEND", "NCCL", "one of LIBFABRIC, UCX"),
        ("VERIFY", "maybe", "one of strict, warn, off"),
        ("NAT_GATEWAYS", "0", "from 1 to 3"),
        ("PUBLIC_ACCESS_CIDRS", "10.0.0.0/8", "private range"),
        ("PUBLIC_ACCESS_CIDRS", "203.0.113.7/24", "host bits set"),
        ("PUBLIC_ACCESS_CIDRS", "203.0.113.0/24,", "an empty entry"),
        ("PUBLIC_ACCESS_CIDRS", "2001:db8::/32", "no IPv4 CIDR"),
        ("STAGE", "Prod!", "a lower-case letter"),
    ],
)
def test_bad_values_name_setting_value_and_what_is_allowed(name: str, value: str, expected: str) -> None:
    (problem,) = problems(**{name: value})
    assert problem.startswith(f"{name}={value}: ")
    assert expected in problem


def test_all_problems_are_reported_at_once() -> None:
    assert len(problems(REGION="mars", VERIFY="maybe", GPU_NODE_TYPE="g6.xlarge", PIPELINE_PARALLEL_SIZE="4")) == 4


def test_message_is_plain_text_with_a_line_per_problem() -> None:
    text = str(SettingsError(list(problems(VERIFY="maybe", NAT_GATEWAYS="9"))))
    assert text.splitlines()[0] == "2 settings are not usable:"
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("gpu_nodetype", "gpu_node_type"),
        ("GPU_NODE_TYPE", "gpu_node_type"),
        ("max-model-len", "max_model_len"),
        ("regoin", "region"),
    ],
)
def test_mistyped_context_names_are_reported(key: str, suggestion: str) -> None:
    (problem,) = problems({key: "x"})
    assert f"did you mean {suggestion}?" in problem


def test_other_context_is_left_alone() -> None:
    load({"@aws-cdk/core:target-partitions": ["aws"], "aws:cdk:enable-path-metadata": True, "vpc-provider:x": 1})


def test_unknown_settings_of_a_stage_are_reported() -> None:
    (problem,) = problems({"stages": {"dev": {"gpu_typ": "g6.8xlarge"}}})
    assert problem.startswith("stages.dev.gpu_typ=g6.8xlarge: unknown setting")


@pytest.mark.parametrize("stages", [[], "dev", ["dev"], {"dev": "x"}, {"dev": None}])
def test_stages_of_another_shape_are_reported(stages: object) -> None:
    if isinstance(stages, dict):
        assert problems({"stages": stages}) == (
            f"stages.dev={json.dumps(stages['dev'])}: allowed in cdk.json is an object of settings",
        )
    elif stages:
        assert "an object of stages" in problems({"stages": stages})[0]
    else:
        load({"stages": stages})


def test_replicas_beyond_the_nodes_are_refused_with_the_sum() -> None:
    (problem,) = problems(PREFILL_REPLICAS="2")
    assert problem.startswith("GPU_NODE_COUNT=2: PREFILL_REPLICAS=2 and DECODE_REPLICAS=1")
    assert "need 2 + 1 nodes" in problem
    assert load(PREFILL_REPLICAS="2", GPU_NODE_COUNT="3").prefill_workers == 2


@pytest.mark.parametrize(
    ("replicas", "size", "workers"),
    [("1", "1", 1), ("8", "1", 1), ("9", "1", 2), ("2", "4", 1), ("3", "4", 2), ("2", "5", 2), ("1", "8", 1)],
)
def test_workers_hold_whole_replicas(replicas: str, size: str, workers: int) -> None:
    settings = load(GPU_NODE_TYPE="g6.48xlarge", GPU_NODE_COUNT="9", PREFILL_REPLICAS=replicas, TENSOR_PARALLEL_SIZE=size)
    assert settings.prefill_workers == workers


def test_private_endpoint() -> None:
    assert load(PUBLIC_ACCESS_CIDRS="none").public_access_cidrs == ()
    assert load({"public_access_cidrs": ["203.0.113.0/24", "198.51.100.7/32"]}).public_access_cidrs == (
        "203.0.113.0/24",
        "198.51.100.7/32",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://charts.example.com:8443/mirror/", "https://charts.example.com:8443/mirror"),
        ("oci://123456789012.dkr.ecr.eu-west-1.amazonaws.com/charts", "oci://123456789012.dkr.ecr.eu-west-1.amazonaws.com/charts"),
        ("http://127.0.0.1:8879", "http://127.0.0.1:8879"),
        ("http://[::1]:8879/charts", "http://[::1]:8879/charts"),
        ("", None),
    ],
)
def test_chart_repository(text: str, expected: str | None) -> None:
    assert load(CHART_REPOSITORY=text).chart_repository == expected


def test_image_of_the_region() -> None:
    assert load(REGION="cn-north-1").dlc_image.startswith("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/")
    assert load(DLC_IMAGE="registry.example.com/ray@sha256:" + "a" * 64).dlc_image.startswith("registry.example.com/")


def test_region_without_a_registry_is_fine_with_an_image() -> None:
    assert "DLC_IMAGE" in problems(REGION="us-gov-west-1")[0]
    load(REGION="us-gov-west-1", DLC_IMAGE="registry.example.com/ray:v1")


def test_warns_once_about_missing_gpudirect() -> None:
    (warning,) = load().warnings(today=TODAY)
    assert warning.startswith("GPU_NODE_TYPE=g6.8xlarge:")
    assert "p5.48xlarge" in warning
    assert load(GPU_NODE_TYPE="p5.48xlarge").warnings(today=TODAY) == ()


def test_warns_about_extended_support_and_its_price() -> None:
    assert any("six times" in warning for warning in load(K8S_VERSION="1.32").warnings(today=TODAY))


def test_warns_when_a_version_has_left_standard_support_since() -> None:
    assert any("2027-03-27" in warning for warning in load().warnings(today=date(2027, 3, 27)))
    assert not any("2027-03-27" in warning for warning in load().warnings(today=date(2027, 3, 26)))


def test_warns_about_a_stage_that_cdk_json_does_not_know() -> None:
    warnings = load({"stages": {"dev": {}, "prod": {}}}, STAGE="prdo").warnings(today=TODAY)
    assert any(warning.startswith("STAGE=prdo:") for warning in warnings)


def test_account_of_a_stage_is_a_string_of_12_digits() -> None:
    assert "12 digits" in problems({"stages": {"dev": {"account": 123456789012}}})[0]


def test_warns_about_idle_gpu_nodes() -> None:
    assert any("2 will run nothing" in warning for warning in load(GPU_NODE_COUNT="4").warnings(today=TODAY))


@hypothesis_settings(max_examples=300, deadline=None)
@given(
    environ=st.dictionaries(
        st.sampled_from([*SETTING_NAMES, "PIPELINE_PARALLEL_SIZE", "CDK_DEFAULT_ACCOUNT"]), st.text(max_size=30)
    ),
    context=st.dictionaries(
        st.sampled_from([*(name.lower() for name in SETTING_NAMES), "stages", "stage"]) | st.text(max_size=12),
        st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.lists(st.integers(), max_size=3),
        max_size=6,
    ),
)
def test_anything_loads_or_is_refused_with_reasons(environ: dict, context: dict) -> None:
    try:
        Settings.load(context=context, environ=environ)
    except SettingsError as error:
        found = error.problems
    else:
        return
    assert found
    assert all(problem.strip() for problem in found)


@pytest.mark.parametrize(
    ("stage", "asks"),
    [("prod", True), ("production", True), ("eu-prod", True), ("live", True), ("dev", False), ("products", False)],
)
def test_production_like_stages_ask_for_approval(stage: str, asks: bool) -> None:
    assert load({"stages": {stage: {}}}, STAGE=stage).approval is asks
    assert load({"stages": {stage: {"approval": not asks}}}, STAGE=stage).approval is not asks


def test_stage_options_come_from_the_stage() -> None:
    stage = {"account": "012345678901", "wave": 2, "termination_protection": True, "nat_gateways": 2}
    loaded = load({"stages": {"dev": stage}})
    assert (loaded.account, loaded.wave, loaded.termination_protection, loaded.nat_gateways) == ("012345678901", "2", True, 2)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("approval", "yes", '"yes"'),
        ("termination_protection", 1, "1"),
        ("wave", True, "true"),
        ("wave", "2 b", '"2 b"'),
        ("wave", "\u0663", '"\\u0663"'),
        ("account", 123456789012, "123456789012"),
        ("account", "1234", "1234"),
    ],
)
def test_bad_stage_options_are_refused(key: str, value, shown: str) -> None:
    (problem,) = problems({"stages": {"dev": {key: value}}})
    assert problem.startswith(f"stages.dev.{key}={shown}: allowed is ")


def test_mistyped_stage_option_gets_a_suggestion() -> None:
    assert problems({"stages": {"dev": {"aproval": True}}})[0].endswith("did you mean approval?")


def test_source_is_not_the_matter_of_a_stage() -> None:
    assert "not the matter of one stage" in problems({"stages": {"dev": {"source_branch": "main"}}})[0]
