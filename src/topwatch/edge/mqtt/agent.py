"""The agent of a device: reads values when a timestamp is announced, and reports them only when it must.

Its last will makes the coordinator drop it when the connection breaks; once reconnected, the agent joins again. Values
that cannot be used count as missing, so that no earlier ones stay in force, and :attr:`Agent.refusal` says why. It
imports neither NumPy nor anything that is compiled.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence

from topwatch.edge.mqtt.connection import Broker, Connection, Publication, Topics, checked_id, decode_tick
from topwatch.edge.protocol.client import Client
from topwatch.edge.protocol.messages import Leave, Message, decode
from topwatch.query.errors import DataError

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
        self._refusal: str | None = None
        self._ended = threading.Event()
        self._connection = Connection(
            broker, f"{prefix}-{id}", self._receive, self._connected, self._will, self._refused_by_broker
        )

    def start(self) -> None:
        """Connect in the background, for as long as it takes, and answer for the device until :meth:`stop`."""
        self._connection.start(patient=True)

    def stop(self) -> None:
        """Leave and disconnect."""
        self._send([self._client.leave()])
        self._connection.stop()

    def run(self, follow: Callable[[], None]) -> None:
        """Answer for the device until ``follow`` returns, and raise :class:`topwatch.DataError` once rows are refused.

        ``follow`` runs in a thread of its own: where it waits for input, a refusal does not wait for it.
        """
        threading.Thread(target=self._follow, args=(follow,), daemon=True).start()
        self.start()
        try:
            self._ended.wait()
        finally:
            self.stop()
        if self._refusal is not None:
            raise DataError(f"agent {self.id!r}: {self._refusal}")

    @property
    def refusal(self) -> str | None:
        """Why rows of the device were refused, or why the broker does not take the agent; None where all is well."""
        return self._refusal or self._connection.refusal

    def _follow(self, follow: Callable[[], None]) -> None:
        try:
            follow()
        except DataError as error:
            self._refuse(str(error))
        finally:
            self._ended.set()

    def _refuse(self, reason: str) -> None:
        self._refusal = reason
        self._ended.set()

    def _refused_by_broker(self, reason: str) -> None:
        self._refuse(f"refused by the broker: {reason}")

    def _will(self) -> Publication:
        # Another run for each connection: the will of an earlier one cannot harm a later one.
        self._run = secrets.randbits(32)
        return Publication(self._topics.up(self.id), Leave(self.id, 0, self._run).encode())

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
        if self._client.refusal is not None:
            self._refuse(f"refused by the coordinator: {self._client.refusal}")

    def _observe(self, epoch: int, tick: int) -> None:
        if epoch != self._epoch:  # a new coordinator, or a new connection
            self._epoch = epoch
            self._client = Client(self.id, self.columns, self._run)
        values = self._values(tick)
        self.counters["ticks"] += 1
        self._send(self._client.observe(tick, (math.nan,) * self.columns if values is None else values))

    def _values(self, tick: int) -> Sequence[float] | None:
        """Return the values of a timestamp; None where there are none, or none that can be used."""
        try:
            values = self._read(tick)
            if values is None:
                return None
            row = tuple(map(float, values))
            if len(row) == self.columns:
                return row
            problem = f"expected {self.columns} values, got {len(row)}"
        except Exception as error:  # whatever a user's function raises would end the thread that talks to the broker
            problem = f"expected {self.columns} numbers, got {type(error).__name__}: {error}"
        self.counters["unusable"] += 1
        self._refuse(f"values at timestamp {tick}: {problem}")
        return None

    def _send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.counters["sent"] += 1
            self._connection.publish(self._topics.up(self.id), message.encode())
