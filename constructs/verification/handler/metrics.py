"""NIXL's counters out of a page of Ray's metrics. Pure."""

import re

# Ray rebuilds a histogram's sum from the middle of its buckets, so only counts are exact.
_TRANSFERS = re.compile(r"^ray_vllm_nixl_bytes_transferred_count(?:\{.*\})? (\S+)$")
_FAILED = re.compile(r"^ray_vllm_nixl_num_failed_\w*?(?<!_created)(?:\{.*\})? (\S+)$")


def nixl(page):
    """(transfers, failed transfers) since the start. A failure counter only appears with the first failure."""
    return _total(_TRANSFERS, page), _total(_FAILED, page)


def _total(pattern, page):
    total = 0.0
    for line in page.splitlines():
        match = pattern.match(line)
        if match:
            try:
                total += float(match[1])
            except ValueError:
                continue
    return total
