"""The agent of a device: reads values when a timestamp is announced, and reports them only when it must.

Its last will makes the coordinator drop it when the connection breaks; once reconnected, the agent joins again. It
imports neither NumPy nor anything that is compiled.
"""

from __future__ import annotations

import math
import re
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TextIO

from topwatch.edge.mqtt.connection import Broker, Connection, Topics, checked_id, decode_tick
from topwatch.edge.protocol.client import Client
from topwatch.edge.protocol.messages import Leave, Message, decode
from topwatch.query.errors import DataError

_BETWEEN = re.compile(r"[\s,;]+")
_LONGEST = 4096  # characters of a line

Read = Callable[[int], Sequence[float] | None]


class Agent:
    """One device on a broker.

    Parameters
    ----------
    id : str
        The device; a part of its topics.
    columns : int
        How many values it has.
    read : callable
        Returns the values at a timestamp, or None while there are none.
    broker : Broker
        Where to.
    prefix : str
        The beginning of all topics.
    """

    def __init__(self, id: str, columns: int, read: Read, broker: Broker, prefix: str = "topwatch") -> None:
        self.id = checked_id(id)
        self.columns = columns
        self.counters: Counter[str] = Counter()
        self._read = read
        self._topics = Topics(prefix)
        self._epoch: int | None = None
        self._client = Client(id, columns)
        self._run = 0
        self._connection = Connection(broker, f"{prefix}-{id}", self._receive, self._connected, self._will)

    def start(self) -> None:
        """Connect in the background, for as long as it takes, and answer for the device until :meth:`stop`."""
        self._connection.start(patient=True)

    def stop(self) -> None:
        """Leave and disconnect."""
        self._send([self._client.leave()])
        self._connection.stop()

    @property
    def refusal(self) -> str | None:
        """Why the broker does not take the agent; None where it does."""
        return self._connection.refusal

    def _will(self) -> tuple[str, bytes]:
        # Another run for each connection: the will of an earlier one cannot harm a later one.
        self._run = secrets.randbits(32)
        return self._topics.up(self.id), Leave(self.id, 0, self._run).encode()

    def _connected(self) -> None:
        self._epoch = None
        self.counters["connected"] += 1
        self._connection.subscribe(self._topics.down(self.id), self._topics.tick)

    def _receive(self, topic: str, payload: bytes) -> None:
        try:
            if topic == self._topics.tick:
                self._observe(*decode_tick(payload))
            else:
                self._send(self._client.receive(decode(payload)))
        except DataError:
            self.counters["refused"] += 1

    def _observe(self, epoch: int, tick: int) -> None:
        if epoch != self._epoch:  # a new coordinator, or a new connection
            self._epoch = epoch
            self._client = Client(self.id, self.columns, self._run)
        values = self._read(tick)
        self.counters["ticks"] += 1
        self._send(self._client.observe(tick, (math.nan,) * self.columns if values is None else values))

    def _send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.counters["sent"] += 1
            self._connection.publish(self._topics.up(self.id), message.encode())


class LastLine:
    r"""The values of a device as lines of text, of which the last one counts.

    A line that is no row of numbers is counted and changes nothing.

    >>> import io
    >>> last = LastLine(io.StringIO("1, 2\nthree\n3.5 4\n"), columns=2)
    >>> last.follow()
    >>> last.values, last.refused
    ((3.5, 4.0), 1)
    """

    def __init__(self, lines: TextIO, columns: int) -> None:
        self.values: tuple[float, ...] | None = None
        self.refused = 0
        self._lines = lines
        self._columns = columns

    def follow(self) -> None:
        """Read to the end."""
        while line := self._lines.readline(_LONGEST):
            words = [word for word in _BETWEEN.split(line) if word]
            try:
                values = tuple(map(float, words))
            except ValueError:
                values = ()
            if len(values) == self._columns:
                self.values = values
            elif words:
                self.refused += 1
