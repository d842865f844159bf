"""`make load URL=http://127.0.0.1:8000`: how the endpoint behaves under rising load."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import openai

from local.load.load_level import LoadLevel
from local.load.load_report import LoadReport
from local.load.load_sweep import LoadSweep


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every request was answered, 1 when some failed, 2 when the endpoint could not be used at all."""
    options = _parser().parse_args(arguments)
    base_url = options.url.rstrip("/").removesuffix("/v1") + "/v1"
    api_key = os.environ.get("OPENAI_API_KEY", "none")
    try:
        model = options.model or _only_model(base_url=base_url, api_key=api_key)
    except (openai.OpenAIError, ValueError) as reason:
        print(f"{base_url}: {reason}", file=sys.stderr)
        return 2
    # A traceback for each failed request tells no more than the table's count of its message.
    logging.getLogger("llmeter").setLevel(logging.CRITICAL)
    sweep = LoadSweep(
        base_url=base_url,
        model=model,
        api_key=api_key,
        concurrency=options.concurrency,
        requests_per_client=options.requests,
        prompt_words=options.prompt,
        answer_tokens=options.answer,
    )
    title = f"{model} at {base_url}: prompts of {options.prompt} words, answers of up to {options.answer} tokens"
    print(f"{title}\n\n{LoadReport.header()}")
    levels = sweep.run(on_level=lambda level: print(LoadReport.row(level), flush=True))
    _write(levels, title=title, folder=options.output)
    return 1 if any(level.failed for level in levels) else 0


def _write(levels: Sequence[LoadLevel], *, title: str, folder: Path) -> None:
    LoadReport.picture(levels, title=title, path=folder / "load.png")
    (folder / "load.json").write_text(json.dumps([asdict(level) for level in levels], indent=2, default=dict), encoding="utf-8")
    print(f"\n{folder / 'load.png'}\n{folder / 'load.json'}")


def _only_model(*, base_url: str, api_key: str) -> str:
    models = [model.id for model in openai.OpenAI(base_url=base_url, api_key=api_key, timeout=30, max_retries=0).models.list()]
    if len(models) != 1:
        raise ValueError(f"serves {', '.join(models) or 'no model'}; name one with --model")
    return models[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local.load", description=__doc__)
    parser.add_argument("url", help="endpoint, with or without /v1; OPENAI_API_KEY is sent if it is set")
    parser.add_argument("--model", help="model id; default: the only one that /v1/models lists")
    parser.add_argument("--concurrency", type=_counts, default=(1, 2, 4, 8, 16), help="levels, default 1,2,4,8,16")
    parser.add_argument("--requests", type=_count, default=4, help="requests of each client at each level, default 4")
    parser.add_argument("--prompt", type=_count, default=512, help="words of a prompt, about as many tokens, default 512")
    parser.add_argument("--answer", type=_count, default=128, help="max_tokens of an answer, default 128")
    parser.add_argument("--output", type=Path, default=Path(".local/load"), help="folder for load.png and load.json")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
