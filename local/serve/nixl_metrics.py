"""The metrics of a decode engine's transfers, under the names by which Ray exports vLLM's."""

from __future__ import annotations

from ray import serve
from ray.util.metrics import Counter, Histogram

_BYTES = [2.0**power for power in range(10, 36, 2)]
_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0]


class NixlMetrics:
    """Of one replica. As with vLLM, the failure counter appears with the first failure."""

    def __init__(self, *, model: str) -> None:
        self._tags = {"model_name": model, "ReplicaId": serve.get_replica_context().replica_id.unique_id}
        keys = tuple(self._tags)
        self._bytes = Histogram("vllm_nixl_bytes_transferred", "Bytes of one transfer", boundaries=_BYTES, tag_keys=keys)
        self._seconds = Histogram("vllm_nixl_xfer_time_seconds", "Duration of one transfer", boundaries=_SECONDS, tag_keys=keys)
        self._failed = Counter("vllm_nixl_num_failed_transfers", "Failed transfers", tag_keys=keys)

    def transferred(self, *, count: int, seconds: float) -> None:
        """One transfer of so many bytes."""
        self._bytes.observe(count, tags=self._tags)
        self._seconds.observe(seconds, tags=self._tags)

    def failed(self) -> None:
        """One transfer that did not arrive."""
        self._failed.inc(tags=self._tags)
