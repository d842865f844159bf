"""`python -m local.kube` (make kube-binaries): get what a local Kubernetes consists of, and say where each part is from."""

from __future__ import annotations

import sys

from local.kube.binaries import BinariesMissing, KubeBinaries, build
from local.kube.chart_repository import charts, pull_charts
from local.kube.sandbox import NOT_HERE

if __name__ == "__main__":
    try:
        build()
        missing = pull_charts(KubeBinaries.find())
    except BinariesMissing as error:
        print(f"make kube-binaries: {error}", file=sys.stderr)
        sys.exit(NOT_HERE)
    for chart in charts():
        reason = missing.get(chart.chart)
        where = f"made here, since {chart.repository} did not give it ({reason})" if reason else f"from {chart.repository}"
        print(f"chart {chart.chart} {chart.version}: {where}")
