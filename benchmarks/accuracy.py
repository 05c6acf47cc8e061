"""How many rows of an approximate answer are right, at every update, beside Tables 2 and 3 of TKDE'11."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from benchmarks import tkde2011
from benchmarks.verdicts import Verdict

if TYPE_CHECKING:
    from benchmarks.dominating import Point

SHORT_OF = 0.5  # points below the paper that are allowed


class Tally:
    """Two answers, replayed side by side.

    >>> tally = Tally({1, 2}, {1, 3})
    >>> tally.pass_by([(11, "leave", 2), (11, "enter", 3)], [(12, "leave", 1), (12, "enter", 4)], 10, 12)
    >>> tally.mean()
    0.75
    """

    def __init__(self, truth: Iterable[Any], mine: Iterable[Any]) -> None:
        self._truth, self._mine = set(truth), set(mine)
        self._updates, self._shares = 0, 0.0

    def pass_by(self, truth: Sequence[Any], mine: Sequence[Any], after: int, last: int) -> None:
        """Go through the changes of the updates past one, up to another; each change begins with at, op and id."""
        events = [(at, 0, op, row) for at, op, row in truth] + [(at, 1, op, row) for at, op, row in mine]
        events.sort(key=lambda event: event[0])
        now = after
        for at, whose, op, row in events:
            if at > now + 1:
                self._count(at - 1 - now)
                now = at - 1
            answer = self._mine if whose else self._truth
            (answer.add if op == "enter" else answer.discard)(row)
        self._count(last - now)

    def _count(self, updates: int) -> None:
        self._updates += updates
        self._shares += updates * len(self._truth & self._mine) / max(1, len(self._truth))

    def mean(self) -> float:
        """Return the mean over all updates of the share of the right rows that were found."""
        return self._shares / max(1, self._updates)


def papers(point: Point, algorithm: str) -> float | None:
    """Return what the paper reports for a point, in percent."""
    s = point.setting
    if s.epsilon != 0.1:
        return tkde2011.TABLE_2.get((s.data, s.epsilon, s.delta)) if algorithm == "ahba" else None
    return tkde2011.TABLE_3.get((s.data, s.k), {}).get(algorithm)


def table(title: str, points: Sequence[Point]) -> Table:
    """Set ours beside the paper's."""
    result = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("data", "n", "k", "ε", "δ", "algorithm", "after", "updates", "right, %", "paper's, %"):
        result.add_column(heading, justify="left" if heading in ("data", "algorithm") else "right")
    for point in points:
        s = point.setting
        for name, run in point.runs.items():
            if name in tkde2011.APPROXIMATE:
                paper = papers(point, name)
                result.add_row(
                    s.data, f"{s.n:,}", str(s.k), f"{s.epsilon:g}", f"{s.delta:g}", name, f"{int(s.before * s.n):,}",
                    f"{run.updates:,}", f"{100 * run.accuracy:.1f}", "–" if paper is None else f"{paper:.1f}",
                )  # fmt: skip
    return result


def evaluate(points: Sequence[Point]) -> Iterator[Verdict]:
    """Evaluate the targets for the generated streams; real ones are reported."""
    for point in points:
        s = point.setting
        for name in tkde2011.APPROXIMATE:
            paper = papers(point, name) if name in point.runs and s.data not in tkde2011.COLUMNS else None
            if paper is not None:
                mine = 100 * point.runs[name].accuracy
                what = f"{name}'s accuracy, {s.data.upper()}, k={s.k}, ε={s.epsilon:g}, δ={s.delta:g}"
                yield Verdict(what, f"{paper:.1f} % less {SHORT_OF}", f"{mine:.1f} %", mine >= paper - SHORT_OF)
