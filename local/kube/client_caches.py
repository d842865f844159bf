"""Where kubectl and helm keep what they remember."""

from __future__ import annotations

from pathlib import Path


def client_caches(folder: Path) -> dict[str, str]:
    """Variables of their environment with which they keep it in `folder`, and not in the caller's home."""
    return dict.fromkeys(("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR"), str(folder))
