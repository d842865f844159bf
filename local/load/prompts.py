"""Prompts of a given length that share nothing, so that no cache answers for the engine."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

_INSTRUCTION = "Write a long story that uses all of these words:"
# Common English words, one token each with the usual tokenizers when a space precedes them.
_TEXT = """
time year people way day man thing woman life child world school state family student group country problem hand part place
case week company system program question work government number night point home water room mother area money story fact
"""
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Iterating never ends; equal seeds give equal prompts in equal order.

    The first words differ from prompt to prompt, so prefixes are not shared either. A word is about one token: what
    the endpoint counted is in the results.
    """

    words: int
    seed: int = 0

    def __iter__(self) -> Iterator[str]:
        source = random.Random(self.seed)
        for number in itertools.count(1):
            title, body = (" ".join(source.choices(_WORDS, k=count)) for count in (8, self.words))
            yield f"{number} {title}. {_INSTRUCTION} {body}"
