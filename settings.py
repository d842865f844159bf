"""The settings of the application: parsed once, checked once, immutable afterwards.

Precedence, lowest first: the defaults below, `stages.<stage>` in cdk.json, the environment variable of the
setting's name, `-c <name in lower case>=<value>`. No other module reads the environment or the context. What describes
a stage and no resource (`STAGE_KEYS`) stands in cdk.json alone.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

from catalog.efa_instance_type import EfaInstanceType, efa_instance_types, near_alternatives
from catalog.helm_charts import CHARTS
from catalog.image_registry import UnknownRegionError, deep_learning_containers_registry, eks_addon_registry
from catalog.kubernetes_version import KubernetesVersion, kubernetes_versions


class SettingsError(Exception):
    """Every problem found in the settings; `str()` is the message for the person who typed them."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        count = "1 setting is" if len(problems) == 1 else f"{len(problems)} settings are"
        super().__init__("\n".join([f"{count} not usable:", *(f"  - {problem}" for problem in problems)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, valid on their own and together. Build it with `Settings.load`."""

    cluster_name: str
    region: str
    k8s_version: str
    system_node_type: str
    system_node_count: int
    gpu_node_type: str
    gpu_node_count: int
    gpu_nodegroup_name: str
    gpu_az: str | None
    dlc_image: str
    kuberay_version: str
    chart_repository: str | None
    ray_version: str
    ray_service_name: str
    namespace: str
    model_id: str
    model_source: str
    hf_token_secret: str | None
    prefill_replicas: int
    decode_replicas: int
    tensor_parallel_size: int
    max_model_len: int
    kv_backend: str
    verify: str
    nat_gateways: int
    public_access_cidrs: tuple[str, ...]
    stage: str
    stage_is_configured: bool
    account: str | None
    approval: bool
    wave: str | None
    termination_protection: bool

    @classmethod
    def load(cls, *, context: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
        """Merge defaults, stage, environment and `-c` values.

        Raises:
            SettingsError: with every problem at once: the setting, the value got and what is allowed.
        """
        problems: list[str] = []
        texts = _merge(context=context, environ=environ, problems=problems)
        values = _parse({name: text for name, text in texts.items() if name not in PIPELINE_NAMES}, problems)
        problems += _pipeline_parallelism(context=context, environ=environ)
        problems += _combinations(values)
        stage = values.get("stage", "")
        account = _account(context=context, environ=environ, stage=stage, problems=problems)
        options = _stage_options(context=context, stage=stage, problems=problems)
        if problems:
            raise SettingsError(problems)
        if not values["dlc_image"]:
            values["dlc_image"] = f"{deep_learning_containers_registry(values['region'])}/{_DLC_REPOSITORY_AND_TAG}"
        return cls(**values, **options, account=account, stage_is_configured=stage in (context.get("stages") or {stage}))

    @property
    def gpu_instance(self) -> EfaInstanceType:
        """The catalog's row for GPU_NODE_TYPE."""
        return efa_instance_types()[self.gpu_node_type]

    @property
    def kubernetes(self) -> KubernetesVersion:
        """The catalog's row for K8S_VERSION."""
        return kubernetes_versions()[self.k8s_version]

    @property
    def prefill_workers(self) -> int:
        """GPU nodes that run prefill replicas, and nothing else."""
        return _nodes(
            replicas=self.prefill_replicas, tensor_parallel_size=self.tensor_parallel_size, gpus=self.gpu_instance.gpu_count
        )

    @property
    def decode_workers(self) -> int:
        """GPU nodes that run decode replicas, and nothing else."""
        return _nodes(
            replicas=self.decode_replicas, tensor_parallel_size=self.tensor_parallel_size, gpus=self.gpu_instance.gpu_count
        )

    def warnings(self, *, today: date) -> tuple[str, ...]:
        """What is allowed but costs money or speed, one sentence each."""
        found = []
        if not self.gpu_instance.gpudirect_rdma:
            direct = ", ".join(name for name, row in efa_instance_types().items() if row.gpudirect_rdma)
            found.append(
                f"GPU_NODE_TYPE={self.gpu_node_type}: its network cards have no GPUDirect RDMA, so the KV cache crosses EFA "
                f"through host memory (GPU to host, EFA, host to GPU): correct, but slower and at the cost of CPU time. "
                f"Types with GPUDirect RDMA: {direct}."
            )
        version = self.kubernetes
        if version.support == "extended":
            found.append(
                f"K8S_VERSION={self.k8s_version}: in extended support (until {version.extended_support_ends}), which costs six "
                f"times the control-plane price. In standard support: {_versions('standard')}."
            )
        elif today >= version.standard_support_ends:
            found.append(
                f"K8S_VERSION={self.k8s_version}: its standard support ended on {version.standard_support_ends}; EKS refuses "
                f"new clusters with support type STANDARD on it. Set a later version, or update catalog/kubernetes_versions.toml."
            )
        if not self.stage_is_configured:
            found.append(f"STAGE={self.stage}: cdk.json has no stages.{self.stage}, so no setting of a stage applies.")
        unused = self.gpu_node_count - self.prefill_workers - self.decode_workers
        if unused:
            found.append(
                f"GPU_NODE_COUNT={self.gpu_node_count}: the replicas need {self.gpu_node_count - unused} GPU nodes, so "
                f"{unused} will run nothing and still cost money."
            )
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Definition:
    default: str
    parse: Callable[[str], Any]


_DLC_REPOSITORY_AND_TAG = "ray:serve-llm-cuda-v1.0"
# RayService names become Service names with a suffix; the operator refuses longer ones.
_RAY_SERVICE_NAME_LIMIT = 47
# The KV block of a hybrid model is 528 tokens, and a transfer can only be seen with a prompt longer than one block.
_MAX_MODEL_LEN_RANGE = (1024, 10_485_760)
_SYSTEM_NAMESPACES = ("default", "kuberay-system", "amazon-guardduty", "amazon-cloudwatch")
# GiB of memory per vCPU by instance class; a system node carries the Ray head (8 GiB), the operator and system pods.
_GIB_PER_VCPU = {"c": 2, "m": 4, "r": 8}
_VCPUS_BY_SIZE = {"nano": 1, "micro": 1, "small": 1, "medium": 1, "large": 2, "xlarge": 4}
_SYSTEM_NODE_MIN_GIB = 12


def _pattern(pattern: str, allowed: str) -> Callable[[str], str]:
    compiled = re.compile(pattern, re.ASCII)

    def parse(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"allowed is {allowed}")
        return text

    return parse


def _optional(parse: Callable[[str], str]) -> Callable[[str], str | None]:
    return lambda text: parse(text) if text else None


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ValueError(f"allowed is a whole number from {low} to {high}")
        return int(text)

    return parse


def _choice(*allowed: str, fold: Callable[[str], str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if fold(text) not in allowed:
            raise ValueError(f"allowed is one of {', '.join(allowed)}")
        return fold(text)

    return parse


def _kubernetes_version(text: str) -> str:
    version = kubernetes_versions().get(text)
    usable = f"usable are {_versions('standard')} (standard support) and {_versions('extended')} (extended support)"
    if version is None:
        raise ValueError(f"EKS does not offer it as far as catalog/kubernetes_versions.toml knows; {usable}")
    if version.support == "ended":
        raise ValueError(f"EKS ended its support on {version.extended_support_ends}; {usable}")
    if version.kubectl_layer is None:
        raise ValueError(f"no kubectl layer is within one minor version of it; {usable}")
    return text


def _versions(support: str) -> str:
    return ", ".join(row.version for row in kubernetes_versions().values() if row.support == support and row.kubectl_layer)


def _kuberay_version(text: str) -> str:
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)\.[0-9]+", text)
    if not match or not (1, 4) <= (int(match[1]), int(match[2])) < (1, 7):
        raise ValueError(
            "allowed is an exact version from 1.4.0 to 1.6.x (before 1.4 fields are missing; from 1.7 every RayService "
            "carries a finalizer that hangs its deletion once the operator is gone)"
        )
    return text


def _chart_repository(text: str) -> str:
    host = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
    loopback = r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?"
    if not re.fullmatch(rf"(https://{host}|http://{loopback})(/[A-Za-z0-9._~%-]+)*/?|oci://{host}(/[a-z0-9._-]+)*/?", text):
        raise ValueError(
            "allowed is the https:// or oci:// address, without credentials, of a Helm repository that serves all of "
            f"{', '.join(CHARTS)} (http:// only on the loopback, where a local test has its own)"
        )
    return text.rstrip("/")


def _gpu_node_type(text: str) -> str:
    if text not in efa_instance_types():
        near = near_alternatives(text) or tuple(efa_instance_types())
        raise ValueError(f"it is no GPU type with EFA known to catalog/efa_instance_types.toml; near it are {', '.join(near)}")
    return text


def _system_node_type(text: str) -> str:
    match = re.fullmatch(
        r"([a-z]+)([0-9]+)([a-z]*)(?:-[a-z0-9]+)?\.(([1-9][0-9]*)?x?large|nano|micro|small|medium|metal(?:-[0-9]+xl)?)", text
    )
    if not match:
        raise ValueError("allowed is an EC2 instance type such as m7i.xlarge")
    family, _, attributes, size, times = match.groups()
    if "g" in attributes or family in ("a", "mac"):
        raise ValueError("it has an Arm processor and the image is built for x86-64; m7i.xlarge is the default")
    vcpus = int(times) * 4 if times else _VCPUS_BY_SIZE.get(size)
    memory_gib = vcpus * _GIB_PER_VCPU.get(family, 4) if vcpus else None
    if memory_gib is not None and memory_gib < _SYSTEM_NODE_MIN_GIB:
        raise ValueError(
            f"it has about {memory_gib} GiB of memory; the Ray head needs 8 GiB beside the operator and the system pods, "
            f"so allowed is {_SYSTEM_NODE_MIN_GIB} GiB or more, such as m7i.xlarge"
        )
    return text


def _cidrs(text: str) -> tuple[str, ...]:
    if text.lower() == "none":
        return ()
    found = tuple(part.strip() for part in text.split(","))
    if len(found) > 40:
        raise ValueError(f"EKS takes at most 40 CIDRs, got {len(found)}")
    for cidr in found:
        try:
            network = ipaddress.IPv4Network(cidr)
        except ValueError as reason:
            raise ValueError(
                f"{cidr or 'an empty entry'} is no IPv4 CIDR ({reason}); allowed is a comma-separated list such as "
                f"203.0.113.0/24,198.51.100.7/32, or none"
            ) from None
        if network.prefixlen and any(network.subnet_of(private) for private in _PRIVATE_NETWORKS):
            raise ValueError(
                f"{cidr} is a private range, which EKS refuses for the public endpoint; private addresses reach the "
                f"cluster through its private endpoint, which is always on"
            )
    return found


_PRIVATE_NETWORKS = tuple(
    ipaddress.IPv4Network(cidr)
    for cidr in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/3",
    )
)

_dns_label = _pattern(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "a DNS label: lower-case letters, digits and -, at most 63 characters")


def _namespace(text: str) -> str:
    if text in _SYSTEM_NAMESPACES or text.startswith("kube-"):
        raise ValueError("this stack creates and deletes its namespace, so it cannot be one that other parts of the cluster use")
    return _dns_label(text)


def _ray_service_name(text: str) -> str:
    if len(text) > _RAY_SERVICE_NAME_LIMIT:
        raise ValueError(f"it has {len(text)} characters and KubeRay takes at most {_RAY_SERVICE_NAME_LIMIT}")
    return _pattern(r"[a-z]([a-z0-9-]*[a-z0-9])?", "a lower-case letter, then lower-case letters, digits and -, no - at the end")(
        text
    )


def _connection_arn(text: str) -> str:
    return _pattern(
        r"arn:(?=aws:[^:]+:(?!cn-|us-gov-)|aws-cn:[^:]+:cn-|aws-us-gov:[^:]+:us-gov-)[a-z-]+:(codeconnections|codestar-connections)"
        r":[a-z]{2}(-[a-z]+)+-\d:\d{12}:connection/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        "arn:aws:codeconnections:<region>:<12-digit account>:connection/<UUID> (or codestar-connections), as the console "
        "shows it under Developer Tools, Connections, its region in the partition that it names",
    )(text)


_DEFINITIONS: Mapping[str, _Definition] = {
    name: _Definition(default=default, parse=parse)
    for name, default, parse in (
        (
            "CLUSTER_NAME",
            "ray-llm-multinode",
            _pattern(r"[A-Za-z][A-Za-z0-9-]{0,99}", "a letter, then letters, digits and -, at most 100 characters"),
        ),
        ("REGION", "sa-east-1", _pattern(r"[a-z]{2}(-[a-z]+)+-\d", "an AWS region name such as sa-east-1")),
        ("K8S_VERSION", "1.35", _kubernetes_version),
        ("SYSTEM_NODE_TYPE", "m7i.xlarge", _system_node_type),
        ("SYSTEM_NODE_COUNT", "1", _whole(1, 100)),
        ("GPU_NODE_TYPE", "g6.8xlarge", _gpu_node_type),
        ("GPU_NODE_COUNT", "2", _whole(2, 100)),
        (
            "GPU_NODEGROUP_NAME",
            "gpu-workers",
            _pattern(
                r"(?!system$)[A-Za-z0-9][A-Za-z0-9_-]{0,62}",
                "a letter or digit, then letters, digits, - and _, at most 63 characters, and not system",
            ),
        ),
        ("GPU_AZ", "", _optional(_pattern(r"[a-z]{2}(-[a-z]+)+-\d[a-z]", "an availability zone name such as sa-east-1a"))),
        (
            "DLC_IMAGE",
            "",
            _optional(
                _pattern(
                    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[a-z0-9._-]+)+"
                    r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})",
                    "registry/repository with :tag or @sha256:digest",
                )
            ),
        ),
        ("KUBERAY_VERSION", "1.4.0", _kuberay_version),
        ("CHART_REPOSITORY", "", _optional(_chart_repository)),
        ("RAY_VERSION", "2.58.0", _pattern(r"\d+\.\d+\.\d+", "the exact Ray version in the image, such as 2.58.0")),
        ("RAY_SERVICE_NAME", "ray-llm", _ray_service_name),
        ("NAMESPACE", "inference", _namespace),
        (
            "MODEL_ID",
            "qwen3.5-9b",
            _pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,95}", "letters, digits and . _ / -, at most 96 characters"),
        ),
        (
            "MODEL_SOURCE",
            "Qwen/Qwen3.5-9B",
            _pattern(
                r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*|s3://anonymous@[a-z0-9.-]+/\S+|/\S+",
                "a Hugging Face id (owner/name), a public bucket (s3://anonymous@bucket/prefix; the pods have no AWS permissions, "
                "so a private one cannot be read) or an absolute path in the image",
            ),
        ),
        (
            "HF_TOKEN_SECRET",
            "",
            _optional(
                _pattern(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", "the name of a Kubernetes Secret")
            ),
        ),
        ("PREFILL_REPLICAS", "1", _whole(1, 100)),
        ("DECODE_REPLICAS", "1", _whole(1, 100)),
        ("TENSOR_PARALLEL_SIZE", "1", _whole(1, 8)),
        ("MAX_MODEL_LEN", "4096", _whole(*_MAX_MODEL_LEN_RANGE)),
        ("KV_BACKEND", "LIBFABRIC", _choice("LIBFABRIC", "UCX", fold=str.upper)),
        ("VERIFY", "strict", _choice("strict", "warn", "off", fold=str.lower)),
        ("NAT_GATEWAYS", "1", _whole(1, 3)),
        ("PUBLIC_ACCESS_CIDRS", "0.0.0.0/0", _cidrs),
        ("STAGE", "dev", _pattern(r"[a-z][a-z0-9-]{0,31}", "a lower-case letter, then lower-case letters, digits and -")),
        ("SOURCE_CONNECTION_ARN", "", _optional(_connection_arn)),
        (
            "SOURCE_REPOSITORY",
            "",
            _optional(
                _pattern(
                    r"(?!.*\.git$)[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*){1,22}",
                    "owner/name as the source provider shows it, without .git",
                )
            ),
        ),
        (
            "SOURCE_BRANCH",
            "",
            _optional(
                _pattern(
                    r"(?!refs/|.*(\.\.|//|\.lock$))[A-Za-z0-9_]([\w./-]{0,253}[\w-])?",
                    "the name of a branch such as main, without refs/heads/, of letters, digits and _ . / -",
                )
            ),
        ),
        ("NOTIFICATION_EMAIL", "", _optional(_pattern(r"[^@\s]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", "an e-mail address"))),
    )
}

SETTING_NAMES: tuple[str, ...] = tuple(_DEFINITIONS)
STAGE_KEYS: tuple[str, ...] = ("account", "approval", "wave", "termination_protection")
"""What a stage of cdk.json may hold beside settings."""
PIPELINE_NAMES: tuple[str, ...] = ("SOURCE_CONNECTION_ARN", "SOURCE_REPOSITORY", "SOURCE_BRANCH", "NOTIFICATION_EMAIL")
"""Settings of the pipeline, which serves all stages: no stage may hold them, see DeliverySource."""
_NOT_OF_A_STAGE = {"stage", *(name.lower() for name in PIPELINE_NAMES)}
# A stage with such a word in its name asks for approval unless it says otherwise.
_PRODUCTION_LIKE = re.compile(r"(^|-)(live|prd|prod|production)(-|$)")


def _merge(*, context: Mapping[str, Any], environ: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    lower = {name.lower(): name for name in _DEFINITIONS}
    texts = {name: definition.default for name, definition in _DEFINITIONS.items()}
    outer = _outer(context=context, environ=environ)
    stage_name = outer.get("STAGE", texts["STAGE"])
    stage = stages_of(context, problems).get(stage_name, {})
    if not isinstance(stage, Mapping):
        problems.append(f"stages.{stage_name}={json.dumps(stage)}: allowed in cdk.json is an object of settings")
        stage = {}
    for key, value in stage.items():
        if key in _NOT_OF_A_STAGE:
            problems.append(
                f"stages.{stage_name}.{key}={value}: it is not the matter of one stage; allowed is the environment variable, "
                f"-c, or beside stages in cdk.json"
            )
        elif key in lower:
            texts[lower[key]] = _text(value)
        elif key not in STAGE_KEYS:
            problems.append(f"stages.{stage_name}.{key}={value}: unknown setting{_suggestion(key, STAGE_KEYS)}")
    problems += _mistyped(context)
    return texts | outer


def _mistyped(context: Mapping[str, Any]) -> list[str]:
    """Keys of the context that are almost a setting; others are the library's."""
    lower = {"stages", *(name.lower() for name in _DEFINITIONS)}
    return [
        f"{key}={value}: unknown setting{suggestion}"
        for key, value in context.items()
        if key not in lower and (suggestion := _suggestion(key))
    ]


def stages_of(context: Mapping[str, Any], problems: list[str]) -> Mapping[str, Any]:
    """The stages of cdk.json by name; another shape is reported and read as none."""
    stages = context.get("stages") or {}
    if isinstance(stages, Mapping):
        return stages
    problems.append(f"stages={json.dumps(stages)}: allowed in cdk.json is an object of stages, each an object of settings")
    return {}


def read_settings(
    names: Iterable[str], *, context: Mapping[str, Any], environ: Mapping[str, str], problems: list[str]
) -> dict[str, Any]:
    """Some settings without those of a stage, by name in lower case. A value that is not allowed is reported and left out."""
    outer = _outer(context=context, environ=environ)
    return _parse({name: outer.get(name, _DEFINITIONS[name].default) for name in names}, problems)


def _outer(*, context: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """What stands outside the stages; `-c` wins."""
    lower = {name.lower(): name for name in _DEFINITIONS}
    outer = {name: environ[name] for name in _DEFINITIONS if environ.get(name)}
    return outer | {lower[key]: _text(value) for key, value in context.items() if key in lower}


def _parse(texts: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    values = {}
    for name, text in texts.items():
        try:
            values[name.lower()] = _DEFINITIONS[name].parse(text)
        except ValueError as reason:
            problems.append(f"{name}={text}: {reason}")
    return values


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value).strip()


def _suggestion(key: str, more: tuple[str, ...] = ()) -> str:
    lower = [*(name.lower() for name in _DEFINITIONS), *more]
    close = difflib.get_close_matches(key.lower().replace("-", "_"), lower, n=1, cutoff=0.8)
    return f"; did you mean {close[0]}?" if close else ""


def _pipeline_parallelism(*, context: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    value = _text(context.get("pipeline_parallel_size", environ.get("PIPELINE_PARALLEL_SIZE", "")))
    if value in ("", "1"):
        return []
    return [
        f"PIPELINE_PARALLEL_SIZE={value}: prefill/decode disaggregation does not start with pipeline parallelism "
        "(the KV connector has no support for it); use TENSOR_PARALLEL_SIZE on a type with more GPUs"
    ]


def _nodes(*, replicas: int, tensor_parallel_size: int, gpus: int) -> int:
    return -(-replicas // (gpus // tensor_parallel_size))


def _combinations(values: Mapping[str, Any]) -> list[str]:
    """Problems of settings that are fine alone; a check whose settings did not parse is left out."""
    problems = []
    region, zone, image = (values.get(name) for name in ("region", "gpu_az", "dlc_image"))
    if region and zone and not re.fullmatch(re.escape(region) + "[a-z]", zone):
        problems.append(f"GPU_AZ={zone}: it is no zone of REGION={region}; allowed is {region} and a letter, or nothing")
    if region and "dlc_image" in values:
        try:
            eks_addon_registry(region)
            if not image:
                deep_learning_containers_registry(region)
        except UnknownRegionError as reason:
            problems.append(f"REGION={region}: {reason}; choose another region{'' if image else ', or give DLC_IMAGE'}")
    problems += _capacity(values)
    return problems


def _capacity(values: Mapping[str, Any]) -> list[str]:
    names = ("gpu_node_type", "gpu_node_count", "prefill_replicas", "decode_replicas", "tensor_parallel_size")
    if any(name not in values for name in names):
        return []
    node_type, count, prefill, decode, size = (values[name] for name in names)
    gpus = efa_instance_types()[node_type].gpu_count
    if size > gpus:
        fitting = [name for name, row in efa_instance_types().items() if row.gpu_count >= size]
        return [
            f"TENSOR_PARALLEL_SIZE={size}: GPU_NODE_TYPE={node_type} has {gpus} GPU{'s' if gpus > 1 else ''} and a replica cannot "
            f"span nodes; allowed is 1 to {gpus}, or a type with {size} GPUs or more ({', '.join(fitting)})"
        ]
    needed = [_nodes(replicas=replicas, tensor_parallel_size=size, gpus=gpus) for replicas in (prefill, decode)]
    if sum(needed) > count:
        return [
            f"GPU_NODE_COUNT={count}: PREFILL_REPLICAS={prefill} and DECODE_REPLICAS={decode} with TENSOR_PARALLEL_SIZE={size} "
            f"need {needed[0]} + {needed[1]} nodes of {node_type} ({gpus} GPU{'s' if gpus > 1 else ''} each; prefill and decode "
            f"never share a node); allowed is {sum(needed)} or more, or fewer replicas"
        ]
    return []


def _stage_options(*, context: Mapping[str, Any], stage: str, problems: list[str]) -> dict[str, Any]:
    """What STAGE_KEYS but `account` say of a stage. A bad value is reported and read as if it were not there."""
    stages = context.get("stages") or {}
    given = stages.get(stage, {}) if isinstance(stages, Mapping) else {}
    given = given if isinstance(given, Mapping) else {}

    def usable(key: str, fits: Callable[[Any], bool], allowed: str) -> Any:
        value = given.get(key)
        if value is None or fits(value):
            return value
        problems.append(f"stages.{stage}.{key}={json.dumps(value)}: allowed is {allowed}")
        return None

    def is_boolean(value: Any) -> bool:
        return isinstance(value, bool)

    approval = usable("approval", is_boolean, "true or false, without quotes")
    wave = usable(
        "wave",
        lambda value: not isinstance(value, bool) and bool(re.fullmatch(r"[0-9]{1,4}|[A-Za-z][A-Za-z0-9-]{0,49}", str(value))),
        "a number from 0 to 9999, or a letter followed by letters, digits and -, at most 50 characters",
    )
    return {
        "approval": bool(_PRODUCTION_LIKE.search(stage)) if approval is None else approval,
        "wave": str(int(wave)) if str(wave).isdecimal() else wave,
        "termination_protection": bool(usable("termination_protection", is_boolean, "true or false, without quotes")),
    }


def _account(*, context: Mapping[str, Any], environ: Mapping[str, str], stage: str, problems: list[str]) -> str | None:
    stages = context.get("stages")
    configured = stages.get(stage) if isinstance(stages, Mapping) else None
    account = configured.get("account") if isinstance(configured, Mapping) else None
    name = f"stages.{stage}.account"
    if account is None:
        name, account = "CDK_DEFAULT_ACCOUNT", environ.get("CDK_DEFAULT_ACCOUNT") or None
    if account is not None and not (isinstance(account, str) and re.fullmatch("[0-9]{12}", account)):
        problems.append(f"{name}={account}: allowed is an AWS account id, a string of 12 digits")
    return account


assert {field.name for field in fields(Settings)} == {
    *(name.lower() for name in _DEFINITIONS if name not in PIPELINE_NAMES),
    *STAGE_KEYS,
    "stage_is_configured",
}


def set_beside_stages(*, context: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """A problem for each setting that a pipeline would not hear of: it knows those of a stage from stages.<name> alone."""
    outer = _outer(context=context, environ=environ)
    stage = [f"STAGE={outer['STAGE']}: a pipeline delivers all stages of cdk.json; allowed is no STAGE"] if "STAGE" in outer else []
    return [
        *_mistyped(context),
        *_pipeline_parallelism(context=context, environ=environ),
        *stage,
        *(
            f"{name}={value}: it stands beside the stages, where a pipeline does not look; allowed is stages.<name>."
            f"{name.lower()} in cdk.json"
            for name, value in outer.items()
            if name not in ("CLUSTER_NAME", "STAGE", *PIPELINE_NAMES)
        ),
    ]
