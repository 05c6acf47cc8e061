"""The coordinator: announces timestamps, receives updates, probes devices where it must, publishes the skyline.

A device without an update is silent, so the coordinator waits until nothing has come for a while. What comes later
counts for the next timestamp and is counted as late: the price of silence is a clock.
"""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from topwatch.core.file_writer import whole_file
from topwatch.edge.mqtt.connection import Broker, Connection, Publication, Topics, encode_tick
from topwatch.edge.mqtt.refusals import Refusals, reason_of
from topwatch.edge.mqtt.result import Result, payload_of
from topwatch.edge.protocol.messages import MOST_BYTES, Leave, Message, Refusal, Update, decode
from topwatch.edge.protocol.server import Server
from topwatch.query.errors import DataError, QueryError

ONLINE, OFFLINE = b"online", b"offline"
_LONGEST = 20  # times the patience: even when messages keep coming, a timestamp ends


class Coordinator:
    """Keeps the skyline of the devices on a broker.

    Parameters
    ----------
    server : Server
        The server side of the protocol.
    broker : Broker
        Where to.
    prefix : str
        The beginning of all topics.
    every : float
        Seconds from one timestamp to the next, or more where one takes longer.
    patience : float
        Seconds without a message after which no message is expected any more. They double after a message that
        came too late, up to twenty times as many, and shrink again.
    timeout : float
        Seconds after which a device that was probed is taken for gone.
    state : path, optional
        A file that keeps the window's counts over restarts.
    """

    def __init__(
        self,
        server: Server,
        broker: Broker,
        prefix: str = "topwatch",
        every: float = 1.0,
        patience: float = 0.1,
        timeout: float = 5.0,
        state: Path | None = None,
    ) -> None:
        for name, value in (("every", every), ("patience", patience), ("timeout", timeout)):
            if not 0.0 <= value < 1e6:
                raise QueryError(f"{name}: expected seconds, got {value!r}")
        self._topics = Topics(prefix)
        self._every, self._patience, self._timeout = every, patience, timeout
        self._wait = patience
        self._state = state
        self.server = _restored(server, state)
        self._inbox: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._epoch = secrets.randbits(32)
        self._connections = 0
        self._refusals = Refusals()
        self._connection = Connection(broker, "", self._receive, self._connected, self._will)

    def start(self) -> None:
        """Connect."""
        self._connection.start()
        end = time.monotonic() + self._timeout
        while not self._connections and time.monotonic() < end:
            if self._connection.refusal:
                raise DataError(f"broker: {self._connection.refusal}")
            time.sleep(0.01)

    def run(self, ticks: int | None = None, show: Callable[[Result], None] | None = None) -> None:
        """Run so many timestamps, without end when no number is given."""
        begin = time.monotonic()
        done = 0
        while ticks is None or done < ticks:
            result = self.tick()
            if show is not None:
                show(result)
            done += 1
            time.sleep(max(0.0, begin + done * self._every - time.monotonic()))

    def tick(self) -> Result:
        """Run one timestamp."""
        if self._connections > 1:  # what devices sent meanwhile is lost: all join again
            self._connections = 1
            self._start_again()
        server = self.server
        self._drain()
        server.begin(server.tick + 1)
        began = datetime.now(UTC)
        self._connection.publish(self._topics.tick, encode_tick(self._epoch, server.tick))
        self._listen()
        while probes := server.ask():
            self._send(list(probes))
            self._await_replies()
        late = tuple(server.late)
        self._send(server.finish())
        # A device that was late once may be again: only a longer wait distinguishes a slow device from a silent one.
        wait = 2.0 * self._wait if late else 0.95 * self._wait
        self._wait = min(max(wait, self._patience), _LONGEST * self._patience)
        shown = tuple(self._refusals.lines())
        result = Result(
            server.tick, server.skyline, server.frequent, server.devices, late, began, self._refusals.total, shown
        )
        if server.skyline is not None:
            self._publish(self._topics.skyline, result, server.skyline)
        self._publish(self._topics.frequent, result, server.frequent)
        self._save()
        return result

    def stop(self) -> None:
        """Disconnect; devices wait for the next coordinator."""
        # The last will says that it is offline: the broker then does so even if messages before it are still queued.
        self._connection.stop(with_will=True)

    def _will(self) -> Publication:
        return Publication(self._topics.status, OFFLINE, retain=True)

    def _connected(self) -> None:
        self._connections += 1
        self._connection.publish(self._topics.status, ONLINE, retain=True)
        self._connection.subscribe(self._topics.up("+"), self._topics.status)

    def _receive(self, topic: str, payload: bytes) -> None:
        if topic != self._topics.status:
            self._inbox.put((topic, payload[: MOST_BYTES + 1]))
        elif payload == OFFLINE:  # the will of an earlier connection, which the broker gave up only now
            self._connection.publish(topic, ONLINE, retain=True)

    def _listen(self) -> None:
        """Take messages until none comes for a while."""
        begin = time.monotonic()
        while time.monotonic() < begin + _LONGEST * self._wait:
            if not self._take(self._wait):
                return

    def _drain(self) -> None:
        """Take what has come since the last timestamp was finished."""
        while self._take(0.0):
            pass

    def _await_replies(self) -> None:
        end = time.monotonic() + self._timeout
        while self.server.waiting and time.monotonic() < end:
            self._take(max(0.0, end - time.monotonic()))
        self._send(self.server.drop_silent())

    def _take(self, seconds: float) -> bool:
        """Hand one message to the server; return False where none came in time."""
        try:
            topic, payload = self._inbox.get(timeout=seconds) if seconds > 0 else self._inbox.get_nowait()
        except queue.Empty:
            return False
        server, device = self.server, self._topics.device(topic)
        try:
            message = decode(payload)
        except DataError as error:
            server.counters["refused_malformed"] += 1
            self._refusals.add(device, str(error))
            return True
        if message.id != device:
            server.counters["refused_topic"] += 1
            self._refusals.add(device, f"a message of the device {message.id!r}")
            return True
        if not server.receive(message):
            reason = reason_of(server, message)
            self._refusals.add(device, reason)
            self._send(self._reactions(message, reason))
        return True

    def _reactions(self, message: Message, reason: str) -> list[Message]:
        """Return what a device has to know about a message that the server refused."""
        tick = max(0, self.server.tick)
        if self.server.problem == "columns":  # no other message of it will do
            return [Refusal(message.id, tick, message.run, reason)]
        if isinstance(message, Update) and message.id not in self.server.devices:
            # It does not know that it was dropped.
            return [Leave(message.id, tick, message.run)]
        return []

    def _send(self, orders: list[Message]) -> None:
        for order in orders:
            self._connection.publish(self._topics.down(order.id), order.encode())

    def _publish(self, topic: str, result: Result, ids: list[str]) -> None:
        values = {id: self.server.values(id) for id in sorted(ids)}
        self._connection.publish(topic, payload_of(result, values), retain=True)

    def _start_again(self) -> None:
        counters = self.server.counters
        self.server = Server.restore(self.server.snapshot())
        self.server.counters = counters
        self._epoch = secrets.randbits(32)

    def _save(self) -> None:
        if self._state is None:
            return
        with whole_file(str(self._state)) as file:
            file.write(self.server.snapshot())


def _restored(server: Server, state: Path | None) -> Server:
    if state is None or not state.exists():
        return server
    try:
        result = Server.restore(state.read_bytes())
    except DataError as error:
        raise DataError(f"state: {str(state)!r} is no state of a coordinator, or damaged") from error
    if (result.prefer, result.method, result.settings) != (server.prefer, server.method, server.settings):
        raise DataError(f"state: {str(state)!r} was begun with another query; give the same one, or another file")
    return result
