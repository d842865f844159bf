"""The EFA instance types: consistent rows, spot values against the sources, and useful alternatives."""

import re

import pytest

from catalog.efa_instance_type import EfaInstanceType, efa_instance_types, near_alternatives

TYPES = efa_instance_types()


@pytest.mark.parametrize("row", TYPES.values(), ids=TYPES)
def test_row_is_consistent(row: EfaInstanceType) -> None:
    assert TYPES[row.name] is row
    assert re.fullmatch(r"(g|gr|p)\d+[a-z]*(-b\d+)?\.\d+xlarge", row.name)
    assert row.efa_interfaces == sum(row.network_cards) >= 1
    assert all(row.network_cards[1:])
    assert row.vcpus == int(re.search(r"\.(\d+)xlarge", row.name)[1]) * 4
    assert row.memory_mib % 1024 == 0
    assert row.memory_mib / 1024 >= 4 * row.vcpus
    assert row.gpu_count in (1, 2, 4, 8)
    assert row.gpu_memory_mib > 20_000
    assert row.nvme_gb > 0


@pytest.mark.parametrize("row", TYPES.values(), ids=TYPES)
def test_family_has_one_gpu(row: EfaInstanceType) -> None:
    same_family = [other for other in TYPES.values() if other.family == row.family]
    assert {(other.gpu_name, other.gpu_memory_mib) for other in same_family} == {(row.gpu_name, row.gpu_memory_mib)}


def test_g6_8xlarge() -> None:
    assert TYPES["g6.8xlarge"] == EfaInstanceType(
        name="g6.8xlarge",
        vcpus=32,
        memory_mib=131072,
        gpu_name="L4",
        gpu_count=1,
        gpu_memory_mib=22888,
        efa_interfaces=1,
        network_cards=(True,),
        nvme_gb=900,
        gpudirect_rdma=False,
        ray_accelerator_type="L4",
    )


@pytest.mark.parametrize(
    ("name", "cards"),
    [
        ("g6e.24xlarge", 2),
        ("g6e.48xlarge", 4),
        ("g7.12xlarge", 1),
        ("g7.24xlarge", 1),
        ("g7.48xlarge", 2),
        ("g7e.12xlarge", 1),
        ("g7e.24xlarge", 2),
        ("g7e.48xlarge", 4),
        ("p4d.24xlarge", 4),
        ("p4de.24xlarge", 4),
        ("p5.4xlarge", 1),
        ("p5.48xlarge", 32),
        ("p5e.48xlarge", 32),
        ("p5en.48xlarge", 16),
        ("p6-b200.48xlarge", 8),
    ],
)
def test_every_network_card_takes_efa(name: str, cards: int) -> None:
    assert TYPES[name].network_cards == (True,) * cards


@pytest.mark.parametrize("family", ["g5", "g6", "gr6"])
def test_one_network_card(family: str) -> None:
    assert {row.network_cards for row in TYPES.values() if row.family == family} == {(True,)}


@pytest.mark.parametrize(
    ("family", "gpu_memory_mib", "gpu_counts"),
    [
        ("g5", 22888, {"8xlarge": 1, "12xlarge": 4, "16xlarge": 1, "24xlarge": 4, "48xlarge": 8}),
        ("g6", 22888, {"8xlarge": 1, "12xlarge": 4, "16xlarge": 1, "24xlarge": 4, "48xlarge": 8}),
        ("gr6", 22888, {"8xlarge": 1}),
        ("g6e", 45776, {"8xlarge": 1, "12xlarge": 4, "16xlarge": 1, "24xlarge": 4, "48xlarge": 8}),
        ("g7", 32768, {"8xlarge": 1, "12xlarge": 2, "24xlarge": 4, "48xlarge": 8}),
        ("g7e", 98304, {"8xlarge": 1, "12xlarge": 2, "24xlarge": 4, "48xlarge": 8}),
        ("p4d", 40960, {"24xlarge": 8}),
        ("p4de", 81920, {"24xlarge": 8}),
        ("p5", 81920, {"4xlarge": 1, "48xlarge": 8}),
        ("p5e", 144384, {"48xlarge": 8}),
        ("p5en", 144384, {"48xlarge": 8}),
        ("p6-b200", 183359, {"48xlarge": 8}),
        ("p6-b300", 275040, {"48xlarge": 8}),
    ],
)
def test_sizes_and_gpus_of_a_family(family: str, gpu_memory_mib: int, gpu_counts: dict[str, int]) -> None:
    rows = [row for row in TYPES.values() if row.family == family]
    assert {row.name.partition(".")[2]: row.gpu_count for row in rows} == gpu_counts
    assert {row.gpu_memory_mib for row in rows} == {gpu_memory_mib}


def test_first_card_of_p6_b300_takes_no_efa() -> None:
    assert TYPES["p6-b300.48xlarge"].network_cards == (False,) + (True,) * 16
    assert [row.name for row in TYPES.values() if not row.network_cards[0]] == ["p6-b300.48xlarge"]


def test_gpudirect_rdma() -> None:
    """Large P types and the G7e with several GPUs; no type with one GPU, and no type on second-hand word alone."""
    assert {row.name for row in TYPES.values() if row.gpudirect_rdma} == {
        "g7e.12xlarge",
        "g7e.24xlarge",
        "g7e.48xlarge",
        "p4d.24xlarge",
        "p4de.24xlarge",
        "p5.48xlarge",
        "p5e.48xlarge",
        "p5en.48xlarge",
        "p6-b200.48xlarge",
        "p6-b300.48xlarge",
    }


@pytest.mark.parametrize(
    ("name", "memory_gib", "nvme_gb"),
    [
        ("gr6.8xlarge", 256, 900),
        ("g6e.12xlarge", 384, 3800),
        ("g7.8xlarge", 128, 930),
        ("g7e.48xlarge", 2048, 15200),
        ("p4d.24xlarge", 1152, 8000),
        ("p5.48xlarge", 2048, 30400),
        ("p6-b300.48xlarge", 4096, 30400),
    ],
)
def test_memory_and_instance_store(name: str, memory_gib: int, nvme_gb: int) -> None:
    assert TYPES[name].memory_mib == memory_gib * 1024
    assert TYPES[name].nvme_gb == nvme_gb


def test_ray_accelerator_types() -> None:
    by_gpu = {row.gpu_name: row.ray_accelerator_type for row in TYPES.values()}
    assert by_gpu == {
        "A10G": "A10G",
        "L4": "L4",
        "L40S": "L40S",
        "RTX PRO 4500": None,
        "RTX PRO 6000": "RTX-PRO-6000",
        "A100": "A100",
        "H100": "H100",
        "H200": "H200",
        "B200": "B200",
        "B300": "B300",
    }


def test_order_is_families_then_sizes() -> None:
    names = list(TYPES)
    assert names[0] == "g5.8xlarge"
    assert names[-1] == "p6-b300.48xlarge"
    for family in {row.family for row in TYPES.values()}:
        places = [names.index(row.name) for row in TYPES.values() if row.family == family]
        assert places == list(range(places[0], places[0] + len(places)))
        sizes = [row.vcpus for row in TYPES.values() if row.family == family]
        assert sizes == sorted(sizes)


def test_mapping_is_read_only() -> None:
    with pytest.raises(TypeError):
        TYPES["g6.xlarge"] = TYPES["g6.8xlarge"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("unknown", "families"),
    [
        ("g6.xlarge", {"g6"}),
        ("g5.2xlarge", {"g5"}),
        ("G5.2XLARGE", {"g5"}),
        ("gr6.4xlarge", {"gr6"}),
        ("g4dn.xlarge", {"g6"}),
        ("g6f.large", {"g6"}),
        ("p3.2xlarge", {"p4d"}),
        ("p6.48xlarge", {"p6-b200"}),
        ("p6e-gb300.36xlarge", {"p6-b300"}),
    ],
)
def test_alternatives_of_a_family(unknown: str, families: set[str]) -> None:
    near = near_alternatives(unknown)
    assert near == tuple(row.name for row in TYPES.values() if row.family in families)
    assert near


@pytest.mark.parametrize("unknown", ["", "nonsense", "m7i.xlarge", "xlarge", ".", "g99.xlarge"])
def test_alternatives_without_a_family(unknown: str) -> None:
    near = near_alternatives(unknown)
    assert 2 <= len(near) <= 5
    assert set(near) <= set(TYPES)
    assert all(TYPES[name].gpu_count <= 2 for name in near)
