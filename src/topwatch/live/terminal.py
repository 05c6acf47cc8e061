"""The terminal view of a monitor: rows per second, every query's answer, and the changes as they come in.

:func:`watch` shows a stream: full screen on a terminal, a line a second in a pipe or a log.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.align import Align
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.rule import Rule
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from topwatch.live.demo import Frame, Stream
from topwatch.live.drawing import WIDE, Best, can_fill, clock, describe, header, sparkline
from topwatch.monitor.changes import Change
from topwatch.query.windows import bytes_in_words

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult

PIPED_SECONDS = 10.0
FRAMES_PER_SECOND = 6
WIDTHS = {
    "rows/s": 9,
    "rows": 11,
    "live": 7,
    "changes": 7,
    "state": 7,
    "pruned": 6,
    "reach a threshold": 6,
    "kernels compiled": 1,
}


def watch(
    start: Callable[[], Stream], title: str, seconds: float | None, endless: bool, console: Console | None = None
) -> None:
    """Show a stream until it ends, ``seconds`` have passed or Ctrl-C is pressed; then print where it stood.

    Parameters
    ----------
    start : function
        Makes the stream; called when the screen is up.
    title : str
        What the stream is, in a few words.
    seconds : float or None
        How long at most, from the first rows on.
    endless : bool
        Nothing else ends the stream: where there is no terminal it is shown for ten seconds.
    console : Console, optional
        Where to show it; standard output when left out.
    """
    console = console or Console(highlight=False)
    full = can_fill(console)
    if not full and endless and seconds is None:
        seconds = PIPED_SECONDS
    view = Screen(title, console) if full else Lines(title)
    with _notice_to(view), _signals_to(view):
        with view:
            for frame in start().frames(view.period, seconds, lambda: view.stopped):
                view.show(frame)
        view.sum_up()


class View:
    """What the two views share: the latest frame, and what is being waited for."""

    period = 1.0

    def __init__(self, title: str) -> None:
        self.title = title
        self.frame: Frame | None = None
        self.waiting = "starting"
        self.stopped = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def interrupt(self) -> None:
        """End after the piece under way; at once when that may take long, or when asked again."""
        if not self.waiting and not self.stopped:
            self.stopped = True
            return
        # An exception would be swallowed by the compiler's callbacks, which then fail in their own way: leave for good.
        self.__exit__()
        self.sum_up()
        sys.stdout.flush()
        os._exit(0)

    def wait_for(self, what: str) -> None:
        """Show what the stream waits for."""
        self.waiting = what

    def show(self, frame: Frame) -> None:
        """Show a frame."""
        self.frame, self.waiting = frame, ""

    def sum_up(self) -> None:
        """Print where the stream stood when it ended."""


class Lines(View):
    """A line a second, in plain ASCII: for pipes and logs."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._titled = False  # the title waits for a second line: an option that is refused has none

    def wait_for(self, what: str) -> None:
        """Print it in a line."""
        super().wait_for(what)
        self._print(what)

    def show(self, frame: Frame) -> None:
        """Print the figures, but not of the frame after the first push."""
        if self.frame is not None:
            figures = "  ".join(f"{value:>{WIDTHS[label]}} {label}" for value, label in _figures_of(frame))
            self._print(f"{frame.seconds:6.1f} s  {figures}")
        super().show(frame)

    def sum_up(self) -> None:
        """Print every query with the head of its answer."""
        frame = self.frame
        if frame is None:
            self._print("stopped before the first rows")
            return
        self._print(_summary(frame))
        width = max(len(str(s.query.name)) for s in frame.queries)
        for s in frame.queries:
            head = ", ".join(f"{entry.id} ({entry.score:.4f})" for entry in s.answer[:3]) or "none"
            more = f" and {len(s.answer) - 3:,} more" if len(s.answer) > 3 else ""
            self._print(f"  {s.query.name:<{width}}  {s.algorithm}  {describe(s.query)}: {head}{more}")

    def _print(self, line: str) -> None:
        print(line if self._titled else f"{self.title}\n{line}", flush=True)
        self._titled = True


class Screen(View):
    """The whole terminal, drawn several times a second, in a thread of its own that goes on while kernels compile."""

    period = 1.0 / FRAMES_PER_SECOND

    def __init__(self, title: str, console: Console) -> None:
        super().__init__(title)
        self._console = console
        self._since = time.monotonic()
        self._spinner = Spinner("dots")
        self._live = Live(
            console=console, screen=True, get_renderable=self.draw, refresh_per_second=FRAMES_PER_SECOND, transient=True
        )

    def __enter__(self) -> None:
        self._live.start(refresh=True)

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def draw(self) -> RenderableType:
        """Return the screen as it is now."""
        frame = self.frame
        if frame is None:
            first, _, rest = self.waiting.partition("; ")
            self._spinner.update(text=f"{first}  {clock(time.monotonic() - self._since)}")
            lines = Group(Align.center(self._spinner), Text(rest, style="dim", justify="center"))
            return Align.center(lines, vertical="middle", height=self._console.height)
        layout = Layout()
        layout.split_column(
            Layout(header(self.title, frame.seconds), size=2),
            Layout(_big_figures(frame, self._console.width), size=3),
            Layout(_query_table(frame, self._console.width), size=len(frame.queries) + 2),
            Layout(_Recent(frame.recent)),
        )
        return layout

    def sum_up(self) -> None:
        """Print the last frame's queries below the command."""
        if self.frame is None:
            self._console.print("stopped before the first rows")
            return
        self._console.print(_query_table(self.frame, self._console.width))
        self._console.print(_summary(self.frame))


# ---- parts of a frame


def _big_figures(frame: Frame, width: int) -> Table:
    """Return the figures with their labels below them and, where there is room, the rate over time."""
    table = Table.grid(expand=True, padding=(0, 1))
    figures = _figures_of(frame)
    for value, label in figures:
        table.add_column(min_width=max(len(value), len(label)), no_wrap=True)
    sparklines = [Align.right(sparkline(frame.rates))] if width >= WIDE else []
    table.add_row(*(Text(value, style="bold") for value, _ in figures), *sparklines)
    table.add_row(*(Text(label, style="dim") for _, label in figures))
    return table


def _figures_of(frame: Frame) -> list[tuple[str, str]]:
    """Return the figures of a frame, each as value and label."""
    figures = [
        (f"{frame.rate:,.0f}", "rows/s"),
        (f"{frame.rows:,}", "rows"),
        (f"{frame.live:,}", "live"),
        (f"{frame.changes:,}", "changes"),
        (bytes_in_words(frame.bytes), "state"),
    ]
    if frame.pruned > 0:  # few queries are scanned, and then nothing is pruned
        figures.append((_share(frame.pruned), "pruned"))
    if frame.reached is not None:
        figures.append((_share(frame.reached), "reach a threshold"))
    if frame.compiled is not None:
        figures.append((f"{frame.compiled.done} of {frame.compiled.total}", "kernels compiled"))
    return figures


def _share(share: float) -> str:
    return f"{100 * share:.3f} %" if 0 < share < 0.01 else f"{100 * share:.1f} %"


def _query_table(frame: Frame, width: int) -> Table:
    """Return a line for each query, with the head of its answer."""
    wide = width >= WIDE
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("query", no_wrap=True)
    table.add_column("asks for", no_wrap=True, overflow="ellipsis")
    table.add_column("by", no_wrap=True)
    if wide:
        table.add_column("changes", no_wrap=True, justify="right")
    table.add_column("best now: row and score", no_wrap=True, overflow="ellipsis", ratio=1)
    for s in frame.queries:
        changes = [f"{s.changes:,}"] if wide else []
        name = Text(str(s.query.name), style="bold")
        head = [(f"{entry.id}", f"{entry.score:.4f}", entry.id in s.fresh) for entry in s.answer]
        table.add_row(name, Text(describe(s.query)), s.algorithm, *changes, Best(head))
    return table


class _Recent:
    """The newest changes, as many as there is room for."""

    def __init__(self, recent: list[Change]) -> None:
        self._recent = recent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = (options.height or 10) - 1
        blocks = 2 if options.max_width >= WIDE else 1
        yield Rule("changes, newest first", style="dim", align="left")
        panes = [_changes(self._recent[i * height : (i + 1) * height]) for i in range(blocks)]
        table = Table.grid(padding=(0, 4), expand=True)
        table.add_row(*panes)
        yield table


def _changes(changes: list[Change]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim")
    table.add_column(width=7)
    table.add_column(width=10)
    table.add_column(justify="right")
    table.add_column(justify="right")
    for change in changes:
        style = "green" if change.op == "enter" else "red"
        op = "enters" if change.op == "enter" else "leaves"
        table.add_row(
            f"{change.at:,}", Text(op, style=style), Text(change.query), f"{change.id}", f"{change.score:.4f}"
        )
    return table


def _summary(frame: Frame) -> str:
    """Return the totals in a line."""
    rate = frame.rows / frame.seconds if frame.seconds > 0 else 0.0
    return (
        f"{frame.rows:,} rows in {frame.seconds:.1f} s ({rate:,.0f} a second), {frame.changes:,} changes,"
        f" {bytes_in_words(frame.bytes)} of state"
    )


# ---- what reaches the view from outside


class _Notice(logging.Handler):
    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        self._view.wait_for(record.getMessage())


@contextmanager
def _notice_to(view: View) -> Iterator[None]:
    """Show what topwatch logs, such as that kernels are being compiled, in the view."""
    logger = logging.getLogger("topwatch")
    handler = _Notice(view)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def _signals_to(view: View) -> Iterator[None]:
    """Stop the view on Ctrl-C and on a request to end the process, so that the terminal is left as it was."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        view.interrupt()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
