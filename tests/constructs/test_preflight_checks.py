"""The preflight's decisions over recorded and generated facts."""

import dataclasses

import pytest
from constructs.preflight.handler import checks
from constructs.preflight.handler.quota import ACCELERATED, GRAPHICS, STANDARD, quota_of
from constructs.preflight.handler.request import Request, private_image
from constructs.preflight.handler.unavailable import Unavailable
from hypothesis import given, strategies as st

IMAGE = "763104351884.dkr.ecr.sa-east-1.amazonaws.com/ray:serve-llm-cuda-v1.0"
REQUEST = Request(
    region="sa-east-1",
    cluster_name="ray-llm-multinode",
    kubernetes_version="1.35",
    gpu_node_type="g6.8xlarge",
    gpu_node_count=2,
    gpu_zone="",
    system_node_type="m7i.xlarge",
    system_node_count=1,
    image=IMAGE,
)
G6 = {"vcpus": 32, "memory_mib": 131072, "efa": True, "architectures": ["x86_64"]}
M7I = {"vcpus": 4, "memory_mib": 16384, "efa": False, "architectures": ["x86_64"]}
FACTS = {
    "region": "opt-in-not-required",
    "zones": ["sa-east-1a", "sa-east-1c"],
    "elsewhere": [],
    "types": {"g6.8xlarge": G6, "m7i.xlarge": M7I},
    "running": {},
    "kubernetes": ["1.33", "1.34", "1.35"],
    "image": "",
    "L-DB2E81BA": 64.0,
    "L-417A185B": 0.0,
    "L-1216C47A": 5.0,
}
UNKNOWN = Unavailable("not allowed to call X: AccessDenied")


def check(name: str, request: Request = REQUEST, **facts):
    (found,) = [finding for finding in checks.findings(request, {**FACTS, **facts}) if finding.check == name]
    return found.status, found.detail


def test_nothing_is_wrong_with_an_account_that_has_it_all() -> None:
    found = checks.findings(REQUEST, FACTS)
    assert {finding.status for finding in found} == {"ok"}
    assert [finding.check for finding in found] == [
        "region",
        "instance type",
        "EFA",
        "vCPU quota L-DB2E81BA",
        "vCPU quota L-1216C47A",
        "Kubernetes version",
        "image",
        "system node",
    ]
    assert checks.message(found) is None


def test_one_message_lists_everything_with_the_way_out() -> None:
    request = dataclasses.replace(REQUEST, gpu_zone="sa-east-1b", system_node_type="m7g.medium", kubernetes_version="1.31")
    types = {"g6.8xlarge": {**G6, "efa": False}, "m7g.medium": {**M7I, "memory_mib": 4096, "architectures": ["arm64"]}}
    facts = {**FACTS, "region": "not-opted-in", "types": types, "L-DB2E81BA": 0.0, "image": "the registry says ImageNotFound"}
    message = checks.message(checks.findings(request, {**facts, "running": UNKNOWN}))
    assert message is not None
    assert message.startswith("7 things stand in the way of this deployment. (1) region: REGION=sa-east-1 is not enabled")
    for expected in (
        "GPU_NODE_TYPE=g6.8xlarge is offered in sa-east-1a, sa-east-1c, not in GPU_AZ=sa-east-1b",
        "has no Elastic Fabric Adapter",
        "2 x g6.8xlarge need 64 vCPUs, 0 are in use",
        "https://sa-east-1.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-DB2E81BA",
        "EKS does not offer K8S_VERSION=1.31 here; it offers 1.33, 1.34, 1.35.",
        f"DLC_IMAGE={IMAGE}: the registry says ImageNotFound",
        "SYSTEM_NODE_TYPE=m7g.medium is not x86-64",
    ):
        assert expected in message


@pytest.mark.parametrize(
    ("limit", "running", "status"),
    [(64, 0, "ok"), (63, 0, "wrong"), (64, 1, "wrong"), (96, 32, "ok"), (0, 0, "wrong")],
)
def test_quota_counts_what_already_runs(limit: float, running: int, status: str) -> None:
    got, detail = check("vCPU quota L-DB2E81BA", **{"L-DB2E81BA": limit, "running": {"L-DB2E81BA": running, "L-1216C47A": 999}})
    assert got == status
    if status == "wrong":
        assert f"ask for {64 + running} at https://" in detail
        assert '"Running On-Demand G and VT instances" allows' in detail


def test_one_quota_for_both_groups_is_asked_for_once() -> None:
    request = dataclasses.replace(REQUEST, system_node_type="g6.xlarge")
    types = {"g6.8xlarge": G6, "g6.xlarge": M7I}
    assert check("vCPU quota L-DB2E81BA", request, types=types, **{"L-DB2E81BA": 67.0})[0] == "wrong"
    assert check("vCPU quota L-DB2E81BA", request, types=types, **{"L-DB2E81BA": 68.0})[0] == "ok"


def test_quota_is_judged_without_the_running_instances_where_the_limit_alone_is_too_low() -> None:
    assert check("vCPU quota L-DB2E81BA", running=UNKNOWN, **{"L-DB2E81BA": 8.0})[0] == "wrong"
    status, detail = check("vCPU quota L-DB2E81BA", running=UNKNOWN)
    assert (status, "what already runs is not known" in detail) == ("ok", True)


@pytest.mark.parametrize("quota", ["L-DB2E81BA", "types"])
def test_quota_is_not_checked_without_limit_or_size(quota: str) -> None:
    assert check("vCPU quota L-DB2E81BA", **{quota: UNKNOWN}) == ("not checked", UNKNOWN.reason)


def test_quota_of_a_type_that_ec2_does_not_describe_is_not_checked() -> None:
    status, detail = check("vCPU quota L-DB2E81BA", types={"m7i.xlarge": M7I})
    assert (status, detail) == ("not checked", "EC2 does not know the vCPUs of 2 x g6.8xlarge")


def test_quota_of_an_unknown_family_is_not_checked() -> None:
    request = dataclasses.replace(REQUEST, system_node_type="x2idn.16xlarge")
    assert check("vCPU quota", request)[0] == "not checked"


@pytest.mark.parametrize(
    ("instance_type", "quota"),
    [
        ("g6.8xlarge", GRAPHICS),
        ("gr6.8xlarge", GRAPHICS),
        ("p5.48xlarge", ACCELERATED),
        ("p6-b200.48xlarge", ACCELERATED),
        ("m7i.xlarge", STANDARD),
        ("im4gn.large", STANDARD),
        ("inf2.xlarge", None),
        ("x2idn.16xlarge", None),
        ("", None),
    ],
)
def test_family_decides_the_quota(instance_type: str, quota) -> None:
    assert quota_of(instance_type) is quota


@pytest.mark.parametrize("family", ["a1", "c7i", "d3", "h1", "i4i", "im4gn", "is4gen", "m7i", "r7i", "t3", "z1d"])
def test_standard_families(family: str) -> None:
    assert quota_of(f"{family}.large") is STANDARD


def test_video_transcoding_counts_as_graphics() -> None:
    assert quota_of("vt1.3xlarge") is GRAPHICS


def test_long_text_is_cut_in_the_middle() -> None:
    assert checks.cut("a" * 100 + "b" * 100, 25) == "a" * 10 + " ... " + "b" * 10
    assert checks.cut("a" * 25, 25) == "a" * 25


def test_china_has_a_console_of_its_own() -> None:
    assert checks.quota_link("cn-north-1", GRAPHICS).startswith("https://cn-north-1.console.amazonaws.cn/")


@pytest.mark.parametrize(("status", "expected"), [("opted-in", "ok"), ("opt-in-not-required", "ok"), ("not-opted-in", "wrong")])
def test_region(status: str, expected: str) -> None:
    assert check("region", region=status)[0] == expected


def test_offering() -> None:
    assert check("instance type", zones=[]) == (
        "wrong",
        "GPU_NODE_TYPE=g6.8xlarge is not offered in REGION=sa-east-1; choose another of the two.",
    )
    elsewhere = check("instance type", zones=[], elsewhere=["us-east-1", "us-east-2"])
    assert elsewhere[1].endswith("choose another of the two. Regions that offer it: us-east-1, us-east-2.")
    assert check("instance type", zones=[], elsewhere=UNKNOWN)[1].endswith("choose another of the two.")
    assert check("instance type", dataclasses.replace(REQUEST, gpu_zone="sa-east-1c")) == (
        "ok",
        "offered in sa-east-1a, sa-east-1c",
    )


def test_a_type_that_ec2_does_not_describe_is_reported_once() -> None:
    found = checks.findings(REQUEST, {**FACTS, "zones": [], "types": {"m7i.xlarge": M7I}})
    assert [finding.check for finding in found if finding.status == "wrong"] == ["instance type"]


@pytest.mark.parametrize(
    ("row", "status"),
    [(M7I, "ok"), ({**M7I, "memory_mib": 12287}, "wrong"), ({**M7I, "memory_mib": 12288}, "ok"), (None, "wrong")],
)
def test_system_node(row, status: str) -> None:
    types = {"g6.8xlarge": G6} | ({"m7i.xlarge": row} if row else {})
    assert check("system node", types=types)[0] == status


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (IMAGE, ("763104351884", "sa-east-1", "ray", {"imageTag": "serve-llm-cuda-v1.0"})),
        ("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/a/b:1", ("727897471807", "cn-north-1", "a/b", {"imageTag": "1"})),
        (
            f"123456789012.dkr.ecr-fips.us-east-1.amazonaws.com/x@sha256:{'a' * 64}",
            ("123456789012", "us-east-1", "x", {"imageDigest": f"sha256:{'a' * 64}"}),
        ),
        ("docker.io/rayproject/ray:2.58.0", None),
        ("public.ecr.aws/x/ray:1", None),
    ],
)
def test_images_in_ecr_are_told_apart(image: str, expected) -> None:
    assert private_image(image) == expected


def test_summary_names_what_was_not_checked() -> None:
    found = checks.findings(REQUEST, {**FACTS, "L-DB2E81BA": UNKNOWN})
    assert checks.summary(found) == (
        "Checked: region, instance type, EFA, vCPU quota L-1216C47A, Kubernetes version, image, system node. "
        "Not checked: vCPU quota L-DB2E81BA (not allowed to call X: AccessDenied)."
    )


def test_nothing_known_stops_nothing() -> None:
    found = checks.findings(REQUEST, dict.fromkeys(FACTS, UNKNOWN))
    assert {finding.status for finding in found} == {"not checked"}
    assert checks.message(found) is None
    assert checks.summary(found).startswith("Checked: nothing. Not checked: region")


TYPE_ROW = st.fixed_dictionaries(
    {
        "vcpus": st.integers(1, 400),
        "memory_mib": st.integers(1, 2**22),
        "efa": st.booleans(),
        "architectures": st.lists(st.sampled_from(["x86_64", "arm64"])),
    }
)
GENERATED = {
    "region": st.sampled_from(["opted-in", "not-opted-in", "unknown to EC2"]),
    "elsewhere": st.lists(st.text(max_size=20)),
    "zones": st.lists(st.text(max_size=2000), max_size=6),
    "types": st.dictionaries(st.sampled_from(["g6.8xlarge", "m7i.xlarge"]), TYPE_ROW),
    "running": st.dictionaries(st.sampled_from(["L-DB2E81BA", "L-1216C47A"]), st.integers(0, 10**6)),
    "kubernetes": st.lists(st.text(max_size=200)),
    "image": st.text(max_size=5000),
    **{code: st.floats(0, 10**6) for code in ("L-DB2E81BA", "L-417A185B", "L-1216C47A")},
}


@given(facts=st.fixed_dictionaries({name: st.one_of(st.just(UNKNOWN), fact) for name, fact in GENERATED.items()}))
def test_any_facts_give_findings_that_fit_an_event(facts) -> None:
    found = checks.findings(REQUEST, facts)
    message = checks.message(found)
    assert (message is None) == all(finding.status != "wrong" for finding in found)
    assert message is None or len(message) <= checks.MESSAGE_LIMIT
    assert len(checks.summary(found)) <= 1000
    unavailable = all(isinstance(fact, Unavailable) for fact in facts.values())
    assert not unavailable or message is None
