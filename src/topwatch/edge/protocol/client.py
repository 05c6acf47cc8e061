"""The client of a device: it holds its filter and reports its values only when it must.

A state machine without transport and without clock: values go in, messages come out. It imports neither NumPy nor
anything that is compiled. When a client reports is decided by plain functions of numbers, or of arrays with a number
for each of many clients: the simulation of ten thousand calls them too, so that it does what devices do.

Zhang et al., SIGMOD 2009, sections 4 to 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from topwatch.core.sampled_timestamps import is_sampled
from topwatch.edge.protocol.messages import (
    ALL,
    FILTER,
    MIXED,
    SAMPLE,
    Filter,
    Join,
    Leave,
    Message,
    Probe,
    Refusal,
    Reply,
    Schedule,
    Update,
    Values,
)
from topwatch.query.errors import DataError


class Client:
    """One device.

    Parameters
    ----------
    id : str
        Its name, at most 64 bytes.
    columns : int
        How many values it has.
    run : int
        A number that distinguishes this start of the device from earlier ones.

    Examples
    --------
    >>> from topwatch.edge.protocol.messages import Filter
    >>> device = Client("a", columns=2)
    >>> device.observe(0, (0.4, 0.6))
    [Join(id='a', tick=0, run=0, values=(0.4, 0.6))]
    >>> device.receive(Filter("a", 0, 0, 1, (0.3, 0.5), (0.5, 0.7)))
    []
    >>> device.observe(1, (0.45, 0.55))
    []
    >>> device.observe(2, (0.45, 0.75))
    [Update(id='a', tick=2, run=0, values=(0.45, 0.75))]
    """

    def __init__(self, id: str, columns: int, run: int = 0) -> None:
        self.id = id
        self.run = run
        self.columns = columns
        self.refused = 0
        self.refusal: str | None = None  # why the server cannot use what the device sends
        self.rejoin()

    def rejoin(self) -> None:
        """Forget the server's orders: the next values are sent as those of a new device."""
        self._joined = False
        self._mode = ALL
        self._low: Values = ()
        self._high: Values = ()
        self._seed, self._rate = 0, 0.0
        self._ordered = 0  # the timestamp of the newest order
        self._owes = False
        self._tick = -1
        self._values: Values = (math.nan,) * self.columns
        self._sent = self._values

    @property
    def mode(self) -> int:
        """The mode that the server has ordered: ``ALL``, ``FILTER``, ``SAMPLE`` or ``MIXED``."""
        return self._mode

    def observe(self, tick: int, values: Sequence[float]) -> list[Message]:
        """Take the values of a timestamp and return what has to be sent. Timestamps rise."""
        if len(values) != self.columns:
            raise DataError(f"values: expected {self.columns}, got {len(values)}")
        if tick <= self._tick:
            raise DataError(f"tick: expected more than {self._tick}, got {tick}")
        self._tick, self._values = tick, tuple(map(float, values))
        return self._reply() if self._owes else self._report()

    def receive(self, message: Message) -> list[Message]:
        """Take an order of the server and return what has to be sent; one for others, or an old one, is refused."""
        mine = message.id == self.id and message.run == self.run and self._joined
        if not mine or message.tick < self._ordered:
            self.refused += 1
            return []
        if isinstance(message, Probe):
            self._ordered = message.tick
            self._owes = message.tick > self._tick  # probed for values that are still to come
            return [] if self._owes else self._reply()
        if isinstance(message, Filter):
            if len(message.low) not in (0, self.columns):
                self.refused += 1
                return []
            self._ordered = message.tick
            self._mode, self._low, self._high = message.mode, message.low, message.high
            # An order may be older than the newest values.
            return self._report() if message.tick < self._tick and changed(self._sent, self._values) else []
        if isinstance(message, Leave):  # the server took it for gone
            self.rejoin()
            return []
        if isinstance(message, Schedule):
            self._ordered = message.tick
            self._mode, self._seed, self._rate = message.mode, message.seed, message.rate
            return []
        if isinstance(message, Refusal):
            self.refusal = message.reason
            return []
        self.refused += 1
        return []

    def leave(self) -> Leave:
        """Return the message of a device that goes."""
        self._joined = False
        return Leave(self.id, max(0, self._tick), self.run)

    def _reply(self) -> list[Message]:
        self._owes = False
        self._mode = ALL  # until the filter comes that each reply is answered with
        self._sent = self._values
        return [Reply(self.id, self._tick, self.run, self._values)]

    def _report(self) -> list[Message]:
        values = self._values
        left = self._mode in (FILTER, MIXED) and outside(self._low, self._high, values)
        sampled = self._rate > 0.0 and is_sampled(self._seed, self._rate, self._tick)
        if not reports(self._mode, sampled, ranked(values), left, changed(self._sent, values)):
            return []
        kind = Update if self._joined else Join
        if left:
            self._mode = ALL  # the filter has failed; the answer is a new one
        self._joined = True
        self._sent = values
        return [kind(self.id, self._tick, self.run, values)]


def ranked(values: Iterable[Any]) -> Any:
    """Return whether no value is missing.

    >>> ranked([1.0, 2.0]), ranked([1.0, float("nan")])
    (True, False)
    """
    whole: Any = True
    for value in values:
        whole = whole & (value == value)
    return whole


def outside(low: Iterable[Any], high: Iterable[Any], values: Iterable[Any]) -> Any:
    """Return whether values have left the closed box; missing ones have.

    >>> outside([0.0, 0.0], [1.0, 1.0], [0.5, 1.0]), outside([0.0], [1.0], [float("nan")])
    (False, True)
    """
    left: Any = False
    for least, most, value in zip(low, high, values, strict=True):
        left = left | ((least <= value) & (value <= most) == False)  # noqa: E712
    return left


def changed(before: Iterable[Any], values: Iterable[Any]) -> Any:
    """Return whether a value is another than before; missing and missing are the same.

    >>> changed([1.0, float("nan")], [1.0, float("nan")]), changed([1.0], [2.0])
    (False, True)
    """
    other: Any = False
    for old, new in zip(before, values, strict=True):
        other = other | ((old != new) & ((old == old) | (new == new)))
    return other


def reports(mode: Any, sampled: bool, whole: Any, left: Any, other: Any) -> Any:
    """Return whether a client has to send its values at a timestamp.

    Parameters
    ----------
    mode : int
        What the server has ordered.
    sampled : bool
        Whether the schedule has this timestamp.
    whole, left, other : bool
        Results of :func:`ranked`, :func:`outside` and :func:`changed`, the last beside what was sent last.

    Examples
    --------
    >>> reports(FILTER, True, True, False, True), reports(MIXED, True, True, False, True)
    (False, True)
    """
    to_report = whole | other  # that values are missing is reported once
    return (
        ((mode == ALL) & other)
        | (((mode == FILTER) | (mode == MIXED)) & left)
        | (((mode == SAMPLE) | (mode == MIXED)) & to_report & sampled)
    )
