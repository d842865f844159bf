"""A load test as a table for the terminal and a picture for the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib

from local.load.load_level import LoadLevel

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import ScalarFormatter

_COLUMNS: Mapping[str, Callable[[LoadLevel], str]] = {
    "clients": lambda level: str(level.concurrency),
    "requests": lambda level: str(level.requests),
    "errors": lambda level: str(level.failed),
    "prompt tok": lambda level: f"{level.prompt_tokens:.0f}",
    "answer tok": lambda level: f"{level.answer_tokens:.0f}",
    "TTFT p50 ms": lambda level: _milliseconds(level.first_token, "p50"),
    "p90": lambda level: _milliseconds(level.first_token, "p90"),
    "p99": lambda level: _milliseconds(level.first_token, "p99"),
    "ITL p50 ms": lambda level: _milliseconds(level.inter_token, "p50"),
    "ITL p90": lambda level: _milliseconds(level.inter_token, "p90"),
    "ITL p99": lambda level: _milliseconds(level.inter_token, "p99"),
    "tok/s": lambda level: f"{level.tokens_per_second:.1f}",
    "req/s": lambda level: f"{level.requests_per_second:.2f}",
}
_LINES = (("p50", "-"), ("p90", "--"), ("p99", ":"))


class LoadReport:
    """Rows in the order of the levels; a value that was not measured is a dash."""

    @staticmethod
    def header() -> str:
        """The table's first line."""
        return "  ".join(_COLUMNS)

    @staticmethod
    def row(level: LoadLevel) -> str:
        """One level, under `header`, and a line for each kind of error."""
        cells = "  ".join(value(level).rjust(len(name)) for name, value in _COLUMNS.items())
        return "\n".join([cells, *(f"{count:>8} x {error}" for error, count in level.errors.items())])

    @staticmethod
    def picture(levels: Sequence[LoadLevel], *, title: str, path: Path) -> None:
        """PNG of time to first token, inter-token latency, throughput and errors by concurrency."""
        figure, ((first, inter), (rate, errors)) = pyplot.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
        clients = [level.concurrency for level in levels]
        _latencies(first, clients, [level.first_token for level in levels], "Time to first token, ms")
        _latencies(inter, clients, [level.inter_token for level in levels], "Inter-token latency, ms")
        rate.plot(clients, [level.tokens_per_second for level in levels], "-o", color="tab:green")
        _axes(rate, clients, "Answer tokens per second")
        errors.bar([str(count) for count in clients], [100 * level.failed / level.requests for level in levels], color="tab:red")
        errors.set(title="Failed requests, %", xlabel="Concurrent requests", ylim=(0, 100))
        errors.grid(axis="y", alpha=0.3)
        figure.suptitle(title)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
        pyplot.close(figure)


def _latencies(axes: Axes, clients: Sequence[int], measured: Sequence[Mapping[str, float]], title: str) -> None:
    for quantile, style in _LINES:
        values = [1000 * entry[quantile] if quantile in entry else float("nan") for entry in measured]
        axes.plot(clients, values, f"{style}o", color="tab:blue", label=quantile)
    axes.legend()
    _axes(axes, clients, title)


def _axes(axes: Axes, clients: Sequence[int], title: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(clients)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set(title=title, xlabel="Concurrent requests")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _milliseconds(quantiles: Mapping[str, float], name: str) -> str:
    return f"{1000 * quantiles[name]:.0f}" if name in quantiles else "-"
