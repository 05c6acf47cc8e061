"""Messages that are refused: which device, why, and how often, in lines that cannot fill a log.

The first refusal of a device for a reason is shown at once, later ones are counted. At the end of an interval a line
gives the count. An interval has a bounded number of devices and reasons; what exceeds it is only counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from topwatch.edge.protocol.messages import Message
from topwatch.edge.protocol.server import Server

_LONGEST = 64  # characters of a device's name that are shown: a topic may be far longer

_REASONS = {
    "direction": "a message that only the coordinator sends",
    "unknown": "a message of a device that has not joined",
    "run": "a message of an earlier start of the device",
    "unasked": "a reply without a probe",
    "tick": "a message of a wrong timestamp",
}


class Refusals:
    """Counts refused messages and returns the lines to show.

    Parameters
    ----------
    seconds : float
        How long the same device and reason are shown once only.
    most : int
        How many devices and reasons are shown in that time.
    clock : callable
        Returns the time in seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> refusals = Refusals(seconds=60.0, clock=lambda: now[0])
    >>> for _ in range(1000):
    ...     refusals.add("pump-7", "expected 2 values, got 3")
    >>> refusals.lines()
    ["refused 'pump-7': expected 2 values, got 3"]
    >>> refusals.lines(), refusals.total
    ([], 1000)
    >>> now[0] = 61.0
    >>> refusals.lines()
    ["refused 'pump-7': expected 2 values, got 3 (999 more times)"]
    """

    def __init__(self, seconds: float = 60.0, most: int = 20, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = 0
        self._seconds, self._most, self._clock = seconds, most, clock
        self._end = clock() + seconds
        self._again: dict[tuple[str, str], int] = {}  # refusals after the one that was shown
        self._others = 0
        self._lines: list[str] = []

    def add(self, device: str, reason: str) -> None:
        """Count a refused message."""
        self.total += 1
        self._renew()
        pair = device[:_LONGEST], reason
        if pair in self._again:
            self._again[pair] += 1
        elif len(self._again) < self._most:
            self._again[pair] = 0
            self._lines.append(_line(*pair))
        else:
            self._others += 1

    def lines(self) -> list[str]:
        """Return the lines to show now, each once."""
        self._renew()
        result, self._lines = self._lines, []
        return result

    def _renew(self) -> None:
        """Begin another interval when the last one is over, with the counts of that one as lines."""
        now = self._clock()
        if now < self._end:
            return
        self._end = now + self._seconds
        self._lines += [f"{_line(*pair)} ({count} more times)" for pair, count in self._again.items() if count]
        if self._others:
            self._lines.append(f"refused {self._others} other messages")
        self._again, self._others = {}, 0


def reason_of(server: Server, message: Message) -> str:
    """Return why a server refused the message that it was given last."""
    if server.problem == "columns":
        return f"expected {server.settings.columns} values, got {len(getattr(message, 'values', ()))}"
    return _REASONS[server.problem]


def _line(device: str, reason: str) -> str:
    # A topic may have any characters in it: those that control a terminal are escaped.
    return f"refused {device!r}: {reason}"
