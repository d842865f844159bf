"""One engine without Ray and without disaggregation, in a process of its own: what the answers are compared with.

Reads `{"engine": {...}, "prompts": [[token id, ...], ...], "max_tokens": n}` from standard input and writes the answers'
token ids as JSON to the file named by the only argument. Greedy, one prompt after another, so that batching changes
nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """A wrong engine argument, or what the engine refuses at start, ends the process with vLLM's own traceback."""
    from vllm import LLM, SamplingParams

    job = json.loads(sys.stdin.read())
    llm = LLM(**job["engine"])
    sampling = SamplingParams(temperature=0, max_tokens=job["max_tokens"], ignore_eos=True)
    answers = [
        list(llm.generate({"prompt_token_ids": prompt}, sampling, use_tqdm=False)[0].outputs[0].token_ids)
        for prompt in job["prompts"]
    ]
    Path(sys.argv[1]).write_text(json.dumps(answers), encoding="utf-8")


# vLLM starts its workers by importing this module again.
if __name__ == "__main__":
    main()
