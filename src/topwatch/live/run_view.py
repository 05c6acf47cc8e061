"""The view of ``topwatch run``: the whole screen of a terminal, or a line for each micro-batch in a pipe or a log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from rich.align import Align
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from topwatch.live.answers import answer_view
from topwatch.live.drawing import bars_of, describe, header, size_of
from topwatch.live.run_state import HISTORY, Course, Reported
from topwatch.query.queries import Query

FRAMES_PER_SECOND = 4
LAST = 20  # answers that stay in the terminal when the run has ended
LOW = 16  # lines of a screen; below that, figures have one line and no space around them


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
    fits = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
    descriptions = {str(query.name): describe(query) for query in queries}
    return RunScreen(title, descriptions, console) if alone and fits else RunLines(title)


class RunView:
    """What both views receive."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.course = Course()
        self._began = time.monotonic()

    def __enter__(self) -> RunView:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def phase(self, words: str) -> None:
        """Take what is being waited for; empty while a micro-batch is under way."""
        self.course = self.course.wait(words)

    def turn(self, number: int, rows: int, seconds: float, moment: str, unread: int) -> None:
        """Take a micro-batch that is done."""
        self.course = self.course.turn(number, rows, seconds, unread)

    def stand(self, rows: int, late: int, refused: int, live: int, bytes: int, answers: Sequence[Reported]) -> None:
        """Take how the state stands."""
        self.course = self.course.stand(rows, late, refused, live, bytes, answers)

    def summary(self) -> str:
        """Return the totals of the run in a line."""
        course, spent = self.course, time.monotonic() - self._began
        if not course.batches:
            return f"no rows in {spent:.1f} s"
        batches = f"{course.batches:,} micro-batch{'es' if course.batches > 1 else ''}"
        line = f"{course.read:,} rows in {batches}, {spent:.1f} s, {course.mean:,.0f} rows/s in the mean"
        if course.state is not None:
            kept, state = size_of(course.state.bytes), course.state
            line += f", {state.live:,} rows kept ({kept}), {state.late:,} late"
        return line + (f", {course.refused:,} refused" if course.state or course.unread else "")


class RunLines(RunView):
    """Plain lines."""

    def __enter__(self) -> RunView:
        self._say(self.title)
        return self

    def __exit__(self, *error: object) -> None:
        if self.course.batches:
            self._say(self.summary())

    def turn(self, number: int, rows: int, seconds: float, moment: str, unread: int) -> None:
        """Print a line."""
        super().turn(number, rows, seconds, moment, unread)
        course = self.course
        line = f"{moment} batch {number}: {rows:,} rows in {seconds:.1f} s, {course.rate:,.0f} rows/s"
        if course.state is not None:
            line += f", state {course.state.live:,} rows, late {course.state.late:,}"
        if course.state is not None or course.refused:
            line += f", refused {course.refused:,}"
        self._say(line)

    def _say(self, line: str) -> None:
        print(line, flush=True)


class RunScreen(RunView):
    """The whole terminal, drawn several times a second in a thread of its own."""

    def __init__(self, title: str, asked: Mapping[str, str], console: Console) -> None:
        super().__init__(title)
        self._asked = asked
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
            self._console.print(answer_view(answers, self._asked, self._console.width, min(len(answers), LAST) + 1))
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
        return answer_view(course.state.answers, self._asked, width, height)


def _in_parts(parts: list[tuple[RenderableType, int]]) -> Layout:
    """Put parts with so many lines each below each other; those that no line is left for are left out."""
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
    taken = Text(f"{course.seconds[-1]:.1f} s  ", style="bold").append(bars_of(course.seconds))
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
            (_bold(size_of(state.bytes)), "state"),
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
