"""The view of ``topwatch run``: the whole screen of a terminal, or a line for each micro-batch in a pipe or a log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from rich.align import Align
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from topwatch.live.drawing import Answer, answer_view, can_fill, describe, header, in_order, plain_lines, sparkline
from topwatch.query.queries import Query
from topwatch.query.windows import bytes_in_words

HISTORY = 20  # micro-batches
FRAMES_PER_SECOND = 4
LAST = 20  # answers that stay in the terminal when the run has ended
SHOWN_EVERY, SHOWN, BEST = 5, 10, 3  # in a log: after so many micro-batches, so many answers, so much of each
LOW = 16  # lines of a screen; below that, figures have one line and no space around them

Reported: TypeAlias = tuple[tuple[Any, ...], str, tuple[tuple[Any, float | None], ...]]
"""An answer as a view receives it: group, query, and ids with scores, the best first."""


def view_of(title: str, queries: Sequence[Query], alone: bool = True, console: Console | None = None) -> RunView:
    """Return the view that fits where output goes.

    Parameters
    ----------
    title : str
        What runs, in a line.
    queries : sequence of queries
        The queries, each with its name.
    alone : bool
        Nothing else is written to the terminal, which can therefore be filled.
    console : Console, optional
        Where to show it; standard output when left out.
    """
    console = console or Console(highlight=False)
    descriptions = {str(query.name): describe(query) for query in queries}
    return RunScreen(title, descriptions, console) if alone and can_fill(console) else RunLines(title, descriptions)


class RunView:
    """What both views share: the course of the run, from what they receive."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.course = Course()
        self._began = time.monotonic()

    def __enter__(self) -> RunView:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def phase(self, words: str) -> None:
        """Record what is being waited for; empty while a micro-batch is under way."""
        self.course = self.course.wait(words)

    def micro_batch(self, number: int, rows: int, seconds: float, moment: str, unread: int) -> None:
        """Record a micro-batch that is done."""
        self.course = self.course.add(number, rows, seconds, unread)

    def status(self, rows: int, late: int, refused: int, live: int, bytes: int, answers: Sequence[Reported]) -> None:
        """Record the state as it is now."""
        self.course = self.course.status(rows, late, refused, live, bytes, answers)

    def summary(self) -> str:
        """Return the totals of the run in a line."""
        course, spent = self.course, time.monotonic() - self._began
        if not course.batches:
            return f"no rows in {spent:.1f} s"
        batches = f"{course.batches:,} micro-batch{'es' if course.batches > 1 else ''}"
        line = f"{course.read:,} rows in {batches}, {spent:.1f} s, {course.mean:,.0f} rows/s in the mean"
        if course.state is not None:
            kept, state = bytes_in_words(course.state.bytes), course.state
            line += f", {state.live:,} rows kept ({kept}), {state.late:,} late"
        return line + (f", {course.refused:,} refused" if course.state or course.unread else "")


class RunLines(RunView):
    """Plain lines: one for each micro-batch, and the best of each answer with the first one, every few and the last."""

    def __init__(self, title: str, descriptions: Mapping[str, str]) -> None:
        super().__init__(title)
        self._descriptions = descriptions
        self._shown = 0  # micro-batches after which answers were printed

    def __enter__(self) -> RunView:
        self._print(self.title)
        return self

    def __exit__(self, *error: object) -> None:
        if self.course.batches:
            if self.course.batches > self._shown:
                self._print_answers()
            self._print(self.summary())

    def micro_batch(self, number: int, rows: int, seconds: float, moment: str, unread: int) -> None:
        """Print a line."""
        super().micro_batch(number, rows, seconds, moment, unread)
        course = self.course
        line = f"{moment} batch {number}: {rows:,} rows in {seconds:.1f} s, {course.rate:,.0f} rows/s"
        if course.state is not None:
            line += f", state {course.state.live:,} rows, late {course.state.late:,}"
        if course.state is not None or course.refused:
            line += f", refused {course.refused:,}"
        self._print(line)
        if course.batches % SHOWN_EVERY == 1:
            self._print_answers()

    def _print_answers(self) -> None:
        self._shown = self.course.batches
        answers = self.course.state.answers if self.course.state is not None else ()
        for line in plain_lines(in_order(answers[:SHOWN], self._descriptions), BEST):
            self._print(line)
        if len(answers) > SHOWN:
            self._print(f"  and {len(answers) - SHOWN:,} more answers")

    def _print(self, line: str) -> None:
        print(line, flush=True)


class RunScreen(RunView):
    """The whole terminal, drawn several times a second in a thread of its own."""

    def __init__(self, title: str, descriptions: Mapping[str, str], console: Console) -> None:
        super().__init__(title)
        self._descriptions = descriptions
        self._console = console
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console, screen=True, get_renderable=self.draw, refresh_per_second=FRAMES_PER_SECOND, transient=True
        )

    def __enter__(self) -> RunView:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()
        if not self.course.batches:
            return
        self._console.print(Text(self.title))
        if self.course.state is not None:
            answers = self.course.state.answers
            self._console.print(
                answer_view(answers, self._descriptions, self._console.width, min(len(answers), LAST) + 1)
            )
        self._console.print(Text(self.summary()))

    def draw(self) -> RenderableType:
        """Return the screen as it is now."""
        course, width, height = self.course, self._console.width, self._console.height
        spent = time.monotonic() - self._began
        words, _, hint = course.phase.partition("; ")
        parts: list[tuple[RenderableType, int]] = [(header(self.title, spent), 1)]
        if not course.batches and course.state is None:
            self._spinner.update(text=words)
            lines = Group(Align.center(self._spinner), Text(hint, style="dim", justify="center"))
            parts.append((Align.center(lines, vertical="middle"), height - 1))
            return _in_parts(parts)
        self._spinner.update(text=words or f"micro-batch {course.number + 1:,}")
        low = height < LOW
        parts.append((self._spinner, 1 if low else 2))
        parts += [(line, 2 if low else 3) for line in figure_lines(course, width)[: 1 if low else 3]]
        room = height - sum(size for _, size in parts)
        parts.append((self._answers(course, width, room), room))
        return _in_parts(parts)

    def _answers(self, course: Course, width: int, height: int) -> RenderableType:
        if course.state is None:
            return Text("the answers go to the sink; they are shown here when there is a checkpoint", style="dim")
        return answer_view(course.state.answers, self._descriptions, width, height)


def _in_parts(parts: list[tuple[RenderableType, int]]) -> Layout:
    """Stack parts with so many lines each; those without a line are left out."""
    layout = Layout()
    layout.split_column(*(Layout(part, size=size) for part, size in parts if size > 0))
    return layout


Figure: TypeAlias = tuple[Text, str]


def figure_lines(course: Course, width: int) -> list[Table]:
    """Return the figures with their labels below them, as many beside each other as there is room for."""
    pace, state = _pace(course), _state(course)
    if sum(_wide(*figure) for figure in pace + state) <= width:
        return [_table(pace + state)]
    return [_table(line) for figures in (pace, state) for line in _cut(figures, width)]


def _pace(course: Course) -> list[Figure]:
    if not course.batches:
        return []
    taken = Text(f"{course.seconds[-1]:.1f} s  ", style="bold").append(sparkline(course.seconds))
    taken.pad_right(max(0, HISTORY + 7 - len(taken)))  # so that what is beside it does not move
    return [
        (_bold(f"{course.rate:,.0f}"), "rows/s"),
        (_bold(f"{course.mean:,.0f}"), "mean rows/s"),
        (_bold(f"{course.number:,}"), "batch"),
        (taken, "batch time"),
    ]


def _state(course: Course) -> list[Figure]:
    figures = [(_bold(f"{course.rows:,}"), "rows")]
    state = course.state
    if state is not None:
        figures += [
            (_bold(f"{state.live:,}"), "rows kept"),
            (_bold(bytes_in_words(state.bytes)), "state"),
            (_bold(f"{state.late:,}"), "late"),
        ]
    if state is not None or course.unread:
        figures.append((_bold(f"{course.refused:,}"), "refused"))
    return figures


def _cut(figures: list[Figure], width: int) -> Iterator[list[Figure]]:
    """Cut figures into lines."""
    line: list[Figure] = []
    for figure in figures:
        if line and sum(_wide(*each) for each in [*line, figure]) > width:
            yield line
            line = []
        line.append(figure)
    if line:
        yield line


def _wide(value: Text, label: str) -> int:
    return max(len(value), len(label), 6) + 2


def _table(figures: list[Figure]) -> Table:
    table = Table.grid()
    for value, label in figures:
        table.add_column(width=_wide(value, label), no_wrap=True)
    table.add_row(*(value for value, _ in figures))
    table.add_row(*(Text(label, style="dim") for _, label in figures))
    return table


def _bold(value: str) -> Text:
    return Text(value, style="bold")


# ---- the course of a run


@dataclass(frozen=True)
class State:
    """The state of a run: totals since the checkpoint began, and what is kept."""

    rows: int
    late: int
    refused: int
    live: int
    bytes: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Course:
    """A run at one moment; never changed once made, so that another thread may draw it.

    >>> course = Course().add(0, rows=1000, seconds=50.0).add(1, rows=3000, seconds=2.0)
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

    def add(self, number: int, rows: int, seconds: float, unread: int = 0) -> Course:
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

    def status(self, rows: int, late: int, refused: int, live: int, bytes: int, answers: Sequence[Reported]) -> Course:
        """Return the course with the state as it is now."""
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
