"""The course of a run: what a view has received about it, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

HISTORY = 20  # micro-batches

Reported: TypeAlias = tuple[tuple[Any, ...], str, tuple[tuple[Any, float | None], ...]]
"""An answer as a view receives it: group, query, and ids with scores, the best first."""


class Answer(NamedTuple):
    """The answer of a query, or its head, in a group: in words, as ids and groups can be anything."""

    group: str
    query: str
    rows: tuple[tuple[str, float | None], ...]
    fresh: frozenset[str] = frozenset()  # ids that were not in it before


@dataclass(frozen=True)
class State:
    """How the state stands: totals since the checkpoint began, and what is kept."""

    rows: int
    late: int
    refused: int
    live: int
    bytes: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Course:
    """How a run stands at one moment; never changed once made, so that another thread may draw it.

    >>> course = Course().turn(0, rows=1000, seconds=50.0).turn(1, rows=3000, seconds=2.0)
    >>> course.rows, course.rate, course.mean
    (4000, 1500.0, 1500.0)
    """

    phase: str = "starting Spark"  # what is being waited for; empty while a micro-batch is under way
    number: int = -1  # of the last micro-batch
    batches: int = 0
    read: int = 0  # rows of this run
    unread: int = 0  # rows of this run that could not be parsed
    rate: float = 0.0  # rows per second of the last micro-batch
    seconds: tuple[float, ...] = ()  # of the newest micro-batches; once there is another, without the first,
    warm: tuple[int, float] = (0, 0.0)  # which may have compiled, and so have the rows and seconds for the mean
    state: State | None = None

    def wait(self, phase: str) -> Course:
        """Wait for something, or no more."""
        return self if phase == self.phase else replace(self, phase=phase)

    def turn(self, number: int, rows: int, seconds: float, unread: int = 0) -> Course:
        """Add a micro-batch."""
        warm = (self.warm[0] + rows, self.warm[1] + seconds) if self.batches else self.warm
        before = self.seconds[1 - HISTORY :] if self.batches > 1 else ()
        return replace(
            self,
            number=number,
            batches=self.batches + 1,
            read=self.read + rows,
            unread=self.unread + unread,
            rate=rows / seconds if seconds > 0 else 0.0,
            seconds=(*before, seconds),
            warm=warm,
        )

    def stand(self, rows: int, late: int, refused: int, live: int, bytes: int, answers: Sequence[Reported]) -> Course:
        """Take how the state stands now."""
        before = {(a.group, a.query): {id for id, _ in a.rows} for a in self.state.answers} if self.state else {}
        named = [Answer(_words(by), query, tuple((str(id), score) for id, score in top)) for by, query, top in answers]
        shown = []
        for answer in named:
            ids = {id for id, _ in answer.rows}
            shown.append(answer._replace(fresh=frozenset(ids - before.get((answer.group, answer.query), ids))))
        return replace(self, state=State(rows, late, refused, live, bytes, tuple(shown)))

    @property
    def rows(self) -> int:
        """Rows in all, those of earlier runs from the same checkpoint included."""
        return max(self.read, self.state.rows) if self.state else self.read

    @property
    def refused(self) -> int:
        """Rows that could not be used, apart from late ones."""
        return self.unread + (self.state.refused if self.state else 0)

    @property
    def mean(self) -> float:
        """Rows per second of all micro-batches but the first, or of that one while there is no other."""
        rows, seconds = self.warm
        return rows / seconds if seconds > 0 else self.rate


def _words(group: tuple[Any, ...]) -> str:
    return ", ".join("null" if value is None else str(value) for value in group)
