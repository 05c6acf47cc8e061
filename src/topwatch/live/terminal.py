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
from typing import Any

from rich.align import Align
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from topwatch.live.drawing import Recent, big_figures, clock, describe, figures_of, header, query_table, summary
from topwatch.live.frames import Frame, Stream

PIPED_SECONDS = 10.0
FRAMES_PER_SECOND = 6
WIDTHS = {"rows/s": 9, "rows": 11, "live": 7, "changes": 7, "state": 7, "pruned": 6, "reach a threshold": 6}  # in lines


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
    # Thresholds and a screen of its own need a terminal that knows them.
    full = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
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
        """Say what the stream waits for."""
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
        """Say it in a line."""
        super().wait_for(what)
        self._say(what)

    def show(self, frame: Frame) -> None:
        """Print the figures, but not of the frame after the first push."""
        if self.frame is not None:
            figures = "  ".join(f"{value:>{WIDTHS[label]}} {label}" for value, label in figures_of(frame))
            self._say(f"{frame.seconds:6.1f} s  {figures}")
        super().show(frame)

    def sum_up(self) -> None:
        """Print every query with the head of its answer."""
        frame = self.frame
        if frame is None:
            self._say("stopped before the first rows")
            return
        self._say(summary(frame))
        width = max(len(str(s.query.name)) for s in frame.queries)
        for s in frame.queries:
            head = ", ".join(f"{entry.id} ({entry.score:.4f})" for entry in s.answer[:3]) or "none"
            more = f" and {len(s.answer) - 3:,} more" if len(s.answer) > 3 else ""
            self._say(f"  {s.query.name:<{width}}  {s.algorithm}  {describe(s.query)}: {head}{more}")

    def _say(self, line: str) -> None:
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
            Layout(big_figures(frame, self._console.width), size=3),
            Layout(query_table(frame, self._console.width), size=len(frame.queries) + 2),
            Layout(Recent(frame.recent)),
        )
        return layout

    def sum_up(self) -> None:
        """Print the last frame's queries below the command."""
        if self.frame is None:
            self._console.print("stopped before the first rows")
            return
        self._console.print(query_table(self.frame, self._console.width))
        self._console.print(summary(self.frame))


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
    """Let Ctrl-C and a request to end the process stop the view, so that the terminal is left as it was."""
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
