"""The load test measures what a server with known latencies does, and counts what it does wrong."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image

from local.load.__main__ import main
from local.load.prompts import Prompts


def run(endpoint: Any, folder: Path, *extra: str) -> tuple[int, list[dict[str, Any]]]:
    status = main([endpoint.url, "--prompt", "20", "--answer", "5", "--output", str(folder), *extra])
    return status, json.loads((folder / "load.json").read_text())


def test_latencies_throughput_and_concurrency_are_the_servers(endpoint: Any, tmp_path: Path) -> None:
    status, [one, four] = run(endpoint, tmp_path, "--concurrency", "1,4", "--requests", "3")
    assert status == 0
    assert (one["requests"], four["requests"]) == (3, 12)
    assert len(endpoint.prompts) == 15
    assert endpoint.most_at_once == 4
    for level in (one, four):
        assert level["errors"] == {}
        assert level["answer_tokens"] == 5
        assert 0.05 <= level["first_token"]["p50"] < 0.5
        assert 0.01 <= level["inter_token"]["p50"] < 0.1
    # 90 ms of waiting for 5 tokens is the most that one client can get.
    assert one["tokens_per_second"] <= 5 / 0.09
    assert four["tokens_per_second"] > one["tokens_per_second"]


def test_every_kind_of_failure_is_counted_and_nothing_is_retried(
    endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.faults = {2: "500", 3: "cut"}
    status, [level] = run(endpoint, tmp_path, "--concurrency", "1", "--requests", "4")
    assert status == 1
    assert len(endpoint.prompts) == 4
    assert sum(level["errors"].values()) == 2
    assert any("the engine is gone" in error for error in level["errors"])
    assert any("without its last chunk" in error for error in level["errors"])
    assert level["answer_tokens"] == 5
    printed = capsys.readouterr().out
    assert "1 x the stream ended" in printed


def test_all_requests_failing_still_gives_a_table_and_a_picture(endpoint: Any, tmp_path: Path) -> None:
    endpoint.faults = dict.fromkeys(range(1, 4), "500")
    status, [level] = run(endpoint, tmp_path, "--concurrency", "1", "--requests", "3")
    assert status == 1
    assert level["first_token"] == {}
    assert level["tokens_per_second"] == 0
    assert image.imread(tmp_path / "load.png").shape[:2] == (900, 1320)


def test_prompts_have_the_length_and_share_no_prefix(endpoint: Any, tmp_path: Path) -> None:
    run(endpoint, tmp_path, "--concurrency", "2", "--requests", "3")
    assert len(set(endpoint.prompts)) == 6
    assert len({prompt.split()[0] for prompt in endpoint.prompts}) == 6
    assert list(islice(Prompts(words=7), 3)) == list(islice(Prompts(words=7), 3))
    assert len(next(iter(Prompts(words=700))).split()) - len(next(iter(Prompts(words=7))).split()) == 693


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_url_with_and_without_the_version(endpoint: Any, tmp_path: Path, suffix: str) -> None:
    endpoint.url += suffix
    assert run(endpoint, tmp_path, "--concurrency", "1", "--requests", "1")[0] == 0


def test_unreachable_endpoint_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["http://127.0.0.1:9", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err.strip() == "http://127.0.0.1:9/v1: Connection error."
    assert not list(tmp_path.iterdir())


def test_several_models_need_a_choice(endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint.models = ["a", "b"]
    assert main([endpoint.url, "--output", str(tmp_path)]) == 2
    assert "serves a, b; name one with --model" in capsys.readouterr().err
    assert run(endpoint, tmp_path, "--model", "b", "--concurrency", "1", "--requests", "1")[0] == 0


@pytest.mark.parametrize("extra", [("--concurrency", "1,0"), ("--requests", "-1"), ("--answer", "x"), ("--concurrency", "")])
def test_bad_numbers_are_named(endpoint: Any, extra: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([endpoint.url, *extra])
    assert "is not a number of 1 or more" in capsys.readouterr().err
