"""Prompts that no cache has seen, with an answer that leaves little to chance. Pure."""

import random

_TEXT = """
    apple river stone cloud paper green house light water music table chair bread silver window garden road snow fire bird
    ship clock glass horse king lake moon night ocean plant queen rain sand tree valley wind yellow bridge castle desert
    engine field gold hill island jacket kitchen ladder mirror needle orange pencil rabbit school tiger uncle village winter
    basket candle doctor flower hammer
"""
_WORDS = _TEXT.split()

# About one token each. Four KV blocks of the hybrid models (528 tokens): a reused prefix of several blocks shows a
# broken cache, a prompt of one block does not.
_LONGEST = 2200
# A word in six may take a second token, and the chat template and the answer take their share.
_SHARE = 0.62
ANSWER_TOKENS = 24


def prompts(*, max_model_len, seed):
    """("long prompt", "prompt with the same beginning") for one round; another seed, another beginning."""
    count = min(_LONGEST, int(max_model_len * _SHARE))
    chosen = random.Random(seed).choices(_WORDS, k=count)
    beginning = f"Here is a list of words: {' '.join(chosen)}."
    return f"{beginning} Repeat the first ten words of the list.", f"{beginning} Repeat the last ten words of the list."
