"""A running query, followed from micro-batch to micro-batch until it ends or is interrupted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from topwatch.query.errors import TopwatchError
from topwatch.spark.state.status import Answer, read_status

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

UNREAD = "unread"  # what Spark counts of a micro-batch: rows that could not be parsed
FIRST = "reading the first rows; rows come more slowly at first on a new machine, until kernels are compiled for it"


class RunError(TopwatchError):
    """A pipeline that stopped because of an error; the message is its cause in one line."""


class View(Protocol):
    """Shows the progress of a run, from plain numbers and text."""

    def phase(self, words: str) -> None:
        """Show what the run waits for; empty during a micro-batch."""

    def micro_batch(self, number: int, rows: int, seconds: float, moment: str, unread: int) -> None:
        """Show a micro-batch that is done."""

    def status(self, rows: int, late: int, refused: int, live: int, bytes: int, answers: tuple[Answer, ...]) -> None:
        """Show the state, with the fields of :class:`Status`."""


class Interrupts:
    """Ctrl-C and requests to end the process: at once at first, between calls to Spark once it runs.

    An exception in the middle of a call to Spark would leave the connection to it in disorder.
    """

    def __init__(self) -> None:
        self.received = False
        self._signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._now) for number in self._signals}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """Only record them from here on; Spark has installed a handler of its own."""
        for number in self._signals:
            signal.signal(number, self._soon)

    def _soon(self, number: int, frame: Any) -> None:
        if self.received:
            self._now(number, frame)
        self.received = True

    def _now(self, number: int, frame: Any) -> None:
        raise KeyboardInterrupt


def follow(
    query: StreamingQuery,
    view: View,
    folder: str | None = None,
    unread: StreamingQuery | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    pause: float = 0.2,
) -> None:
    """Show each micro-batch in a view until both queries have ended; an error becomes one line.

    Parameters
    ----------
    query : StreamingQuery
        What runs.
    view : View
        What shows the run.
    folder : str, optional
        Where the buckets write their status.
    unread : StreamingQuery, optional
        One that runs beside it, and whose errors count too.
    interrupted : function
        Returns whether to stop: then KeyboardInterrupt is raised.
    pause : float
        Seconds between two looks.
    """
    view.phase(FIRST)
    _show_status(view, folder, str(query.id))  # of an earlier run
    both = [query] if unread is None else [query, unread]
    last, seen = -1, None
    while True:
        ended = not any(each.isActive for each in both)
        latest = query.lastProgress
        mark = latest and (latest["timestamp"], latest["batchId"], latest["numInputRows"])
        if latest is not None and mark != seen:
            seen = mark
            _show_status(view, folder, str(query.id))
            # All of them are a hundred calls to Spark: only where some have been missed.
            for progress in [latest] if latest["batchId"] == last + 1 else query.recentProgress:
                if progress["batchId"] > last and progress["numInputRows"] > 0:
                    last = progress["batchId"]
                    _show_micro_batch(view, progress)
        for error in [each.exception() for each in both]:
            if error is not None:
                raise RunError(f"run: {cause(str(error))}")
        if ended:
            return
        if interrupted():
            raise KeyboardInterrupt
        view.phase(_phase(query.status, first=last < 0))
        time.sleep(pause)


def _show_status(view: View, folder: str | None, query: str) -> None:
    status = read_status(folder, query) if folder is not None else None
    if status is not None:
        known = {name: value for name, value in vars(status).items() if name != "batch"}
        view.status(**known)


def _show_micro_batch(view: View, progress: Any) -> None:
    observed = progress["observedMetrics"].get(UNREAD)
    view.micro_batch(
        number=progress["batchId"],
        rows=progress["numInputRows"],
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        moment=progress["timestamp"],
        unread=observed[0] if observed is not None else 0,
    )


def _phase(status: dict[str, Any], first: bool) -> str:
    """Return what Spark is doing.

    >>> _phase({"message": "Waiting for data to arrive", "isDataAvailable": False, "isTriggerActive": False}, False)
    'waiting for rows'
    """
    if status["message"].startswith("Initializing"):
        return FIRST
    if not status["isDataAvailable"]:
        return "waiting for rows"
    if status["message"] == "Waiting for next trigger":
        return "waiting for the next trigger"
    return FIRST if first else ""


def cause(text: str) -> str:
    r"""Return the line with the cause from Spark's message about an error.

    >>> cause("[STREAM_FAILED] Query terminated: Traceback\n  File x\ntopwatch.DataError: time went back\n")
    'time went back'
    """
    lines = [line.strip(" :") for line in text.splitlines() if line.strip(" :")]
    ours = [line.partition("Error: ")[2] for line in lines if line.startswith("topwatch.")]
    theirs = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (ours or theirs or lines or ["unknown"])[0]
