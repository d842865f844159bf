"""The changes of one stack, worst first, and a line about all stacks for an approval."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tools.change_row import COSTLY_TO_REPLACE, ChangeRow, Weight

SUMMARY_LIMIT = 1000
"""CodePipeline's limit for the text of an approval, in characters."""
_ORDER = ("remove", "replace", "may replace", "release", "depends", "modify", "import", "add")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTable:
    """`link` leads to the change set in the console; None where there is none to look at."""

    stack: str
    rows: tuple[ChangeRow, ...]
    note: str = ""
    link: str | None = None

    def text(self) -> str:
        """For a terminal or a build log."""
        lines = [f"{self.stack}: {self.note or self.counts()}"]
        if alarm := self.alarm():
            lines.append(f"  {alarm}")
        widths = [max((len(getattr(row, name)) for row in self.rows), default=0) for name in ("action", "type", "logical_id")]
        for row in sorted(self.rows, key=_worst_first):
            cells = (row.action, row.type, row.logical_id)
            lines.append(
                "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), row.because]).rstrip()
            )
        if self.link:
            lines.append(f"  {self.link}")
        return "\n".join(lines)

    def counts(self) -> str:
        """Such as `1 replace, 3 modify`."""
        counts = Counter(row.action.lower() for row in self.rows)
        return ", ".join(f"{counts[action]} {action}" for action in _ORDER if counts[action]) or "no changes"

    def alarm(self) -> str:
        """What of it costs data or the endpoint, in capitals; empty where nothing does."""
        found = Counter((row.action, COSTLY_TO_REPLACE[row.type].upper()) for row in self.rows if row.weight is Weight.COSTLY_LOSS)
        return ", ".join(f"{verb} {count} {kind}{'S' if count > 1 else ''}" for (verb, kind), count in sorted(found.items()))


def summary(tables: list[ChangeTable]) -> str:
    """One line of SUMMARY_LIMIT characters at most, alarms first; without quotes, which the approval's JSON would break on."""
    alarms = [f"{table.stack}: {alarm}!" for table in tables if (alarm := table.alarm())]
    counts = [f"{table.stack}: {table.note or table.counts()}" for table in tables]
    text = "; ".join([*alarms, *counts]).replace('"', "'").replace("\\", "/").replace("\n", " ")
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 4].rsplit("; ", 1)[0] + "; ..."


def _worst_first(row: ChangeRow) -> tuple[int, int, str, str]:
    return row.weight, _ORDER.index(row.action.lower()), row.type, row.logical_id
