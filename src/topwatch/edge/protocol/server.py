"""The server of many devices: messages in, messages out, and the skyline and frequent skyline of each timestamp.

A state machine without transport and without clock. Zhang et al., SIGMOD 2009, Algorithms 1, 6 and 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from topwatch.algorithms.skyline.frequent import Shares
from topwatch.core.arrays import Floats
from topwatch.core.sampled_timestamps import check_guarantee
from topwatch.core.saved_state import Fields, Saved
from topwatch.edge.protocol.device_records import Settings
from topwatch.edge.protocol.messages import (
    ALL,
    LONGEST_ID,
    MOST_TICKS,
    SAMPLE,
    Filter,
    Join,
    Leave,
    Message,
    Probe,
    Reply,
    Schedule,
    Update,
    Values,
    is_id,
)
from topwatch.edge.protocol.methods import build
from topwatch.monitor import snapshot_format
from topwatch.query.errors import DataError, PlanError, QueryError
from topwatch.query.queries import checked_prefer

_SPARE = 1024  # devices that are remembered though they are gone


class Server:
    """Keeps the skyline of devices that report only when they must.

    A timestamp is :meth:`begin`, :meth:`receive` for what devices send, :meth:`ask` until it returns nothing and
    :attr:`waiting` is empty, then :meth:`finish`. What arrives between two timestamps counts for the next one, and as
    ``counters["late"]``.

    Parameters
    ----------
    prefer : mapping of column to "min" or "max"
        What is better; devices send the columns in this order.
    method : str
        ``naive``, ``filter``, ``sampling`` or ``hybrid``.
    share, window : float, int
        Frequent are records in the skyline of that share of the last so many timestamps.
    epsilon, delta : float
        Error and confidence of the methods that sample.
    seed : int
        Of the schedule.

    Examples
    --------
    >>> from topwatch.edge.protocol import Client
    >>> server = Server({"price": "min", "stars": "max"}, window=10)
    >>> devices = {name: Client(name, columns=2) for name in ("a", "b")}
    >>> server.begin(0)
    >>> for name, values in {"a": (10.0, 4.0), "b": (12.0, 3.0)}.items():
    ...     for message in devices[name].observe(0, values):
    ...         server.receive(message)
    True
    True
    >>> server.ask()
    []
    >>> for message in server.finish():
    ...     devices[message.id].receive(message)
    []
    []
    >>> server.skyline, server.frequent
    (['a'], ['a'])
    """

    def __init__(
        self,
        prefer: Mapping[str, str],
        method: str = "filter",
        share: float = 0.8,
        window: int = 1000,
        epsilon: float = 0.2,
        delta: float = 0.1,
        seed: int = 0,
    ) -> None:
        self.prefer = checked_prefer("skyline", prefer)
        check_guarantee(window, share, epsilon, delta, seed)
        self.method = method
        self.settings = Settings(len(self.prefer), share, window, epsilon, delta, seed)
        self._sign = np.array([-1.0 if better == "max" else 1.0 for better in self.prefer.values()])
        self._records = build(method, self.settings)
        self._shares = Shares(window)
        self._slots: dict[str, int] = {}
        self._ids: list[str] = []
        self._free: list[int] = []
        self._runs: dict[str, int] = {}
        self._received: dict[str, int] = {}  # the timestamp of the newest message of each device that is there
        self._early: dict[int, Values] = {}
        self._open = False
        self.tick = -1
        self.waiting: set[str] = set()
        self.skyline: list[str] | None = None
        self.frequent: list[str] = []
        self.counters: Counter[str] = Counter()
        self.problem = ""  # why the newest message was refused, in a word; empty where it was not
        self.late: list[int] = []  # timestamps of messages that came too late for them, since the last finish but one

    @property
    def devices(self) -> list[str]:
        """The ids of the devices that are there."""
        return list(self._received)

    def values(self, id: str) -> dict[str, float] | None:
        """Return the values that a device reported last, by column; None where it is gone or a value is missing."""
        slot = self._slots.get(id, -1)
        if id not in self._received or not 0 <= slot < len(self._records.alive) or not self._records.alive[slot]:
            return None
        return dict(zip(self.prefer, (self._records.point[slot] * self._sign).tolist(), strict=True))

    def begin(self, tick: int) -> None:
        """Start a timestamp; timestamps rise."""
        if not self.tick < tick <= MOST_TICKS or self._open:
            raise DataError(f"tick: expected more than {self.tick}, at most {MOST_TICKS}, after finish, got {tick}")
        self._free_slots()
        self.tick, self._open = tick, True
        self._records.begin(tick)
        early, self._early = self._early, {}
        for slot, values in early.items():
            self._records.report(np.array([slot]), self._row(values))

    def receive(self, message: Message) -> bool:
        """Take what a device sent; return False where it is refused, which is counted and changes nothing."""
        self.problem = self._problem(message)
        if self.problem:
            self.counters[f"refused_{self.problem}"] += 1
            return False
        self.counters["received"] += 1
        if isinstance(message, Leave):
            self._forget(message.id)
            return True
        assert isinstance(message, Join | Update | Reply)
        slot = self._slot(message.id)
        if isinstance(message, Join) and self._runs.get(message.id, message.run) != message.run:
            self._forget(message.id)
            slot = self._slot(message.id)
        self._runs[message.id] = message.run
        self._received[message.id] = message.tick
        if message.tick < self.tick or not self._open:
            self.counters["late"] += 1
            self.late.append(message.tick)
        if message.id in self.waiting:
            self.waiting.discard(message.id)
            self._records.answer(np.array([slot]), self._row(message.values))
        elif self._open:
            self._records.report(np.array([slot]), self._row(message.values))
        else:
            self._early[slot] = message.values
        return True

    def ask(self) -> list[Probe]:
        """Return probes; they go on when all devices probed have replied or are gone."""
        if self.waiting or not self._open:
            return []
        probed = [self._ids[slot] for slot in self._records.questions()]
        self.waiting.update(probed)
        self.counters["probes"] += len(probed)
        return [Probe(name, self.tick, self._runs[name]) for name in probed]

    def drop_silent(self) -> list[Message]:
        """Forget the devices that were probed and have not replied; return messages that notify them."""
        gone: list[Message] = [Leave(name, self.tick, self._runs[name]) for name in sorted(self.waiting)]
        for message in gone:
            self._forget(message.id)
        self.counters["silent"] += len(gone)
        return gone

    def finish(self) -> list[Message]:
        """End the timestamp: set ``skyline`` (None where it was not sampled) and ``frequent``, return new orders."""
        if not self._open or self.waiting:
            raise DataError(f"finish: {len(self.waiting)} devices were probed and have not replied")
        self._open = False
        self.late = []
        outcome = self._records.finish()
        self._shares.grow(len(self._ids))
        self._shares.take(self.tick, outcome.skyline)
        self.skyline = None if outcome.skyline is None else [self._ids[slot] for slot in outcome.skyline]
        self.frequent = [self._ids[slot] for slot in self._shares.frequent(self.settings.share)[0]]
        orders = [self._schedule(slot) for slot in outcome.scheduled]
        orders += [self._filter(slot) for slot in outcome.filtered]
        self.counters["orders"] += len(orders)
        return orders

    def snapshot(self) -> bytes:
        """Return the counts of the window. Filters are not in it: after a restart all devices join again."""
        header = {"prefer": self.prefer, "method": self.method, "tick": self.tick, "ids": self._ids}
        s = self.settings
        header["options"] = [s.share, s.window, s.epsilon, s.delta, s.seed]
        return snapshot_format.pack(header, self._shares.save(np.arange(len(self._ids))))

    @classmethod
    def restore(cls, blob: bytes) -> Server:
        """Return a server that continues the counts of a snapshot, without devices.

        Any other bytes are refused with a :class:`~topwatch.query.errors.DataError`.
        """
        fields, arrays = snapshot_format.unpack(blob)
        header, saved = Fields(fields), Saved(arrays)
        options, ids = header.raw("options"), header.raw("ids")
        header.expect(isinstance(options, list) and len(options) == 5, "options", "five numbers", options)
        # The name of a slot that is free is empty.
        names = isinstance(ids, list) and all(id == "" or is_id(id) for id in ids)
        header.expect(names, "ids", f"a list of names of up to {LONGEST_ID} bytes of UTF-8", ids)
        named = [id for id in ids if id]
        header.expect(len(set(named)) == len(named), "ids", "names that differ", ids)
        try:
            server = cls(header.raw("prefer"), header.raw("method"), *options)
        except (QueryError, PlanError) as error:
            raise DataError(f"snapshot: header: {error}") from None
        server.tick = header.whole("tick", -1, MOST_TICKS - 1)
        server._shares.grow(len(ids))
        server._shares.load(saved, np.arange(len(ids)))
        header.expect(
            server._shares.taken <= max(0, server.tick), "tick", "no earlier one than was counted", server.tick
        )
        header.done()
        saved.done()
        server._ids = ids
        server._slots = {name: slot for slot, name in enumerate(server._ids) if name}
        server._free = [slot for slot, name in enumerate(server._ids) if not name]
        return server

    def _problem(self, message: Message) -> str:
        """Return why a message is refused, in a word; nothing where it is not."""
        if not isinstance(message, Join | Update | Reply | Leave):
            return "direction"
        known = message.id in self._received
        if not isinstance(message, Join):
            if not known:
                return "unknown"
            if message.run != self._runs[message.id]:
                return "run"
        if isinstance(message, Leave):
            return ""
        if len(message.values) != self.settings.columns:
            return "columns"
        if isinstance(message, Reply) and message.id not in self.waiting:
            return "unasked"
        same = known and message.run == self._runs[message.id]
        return "tick" if message.tick > self.tick or (same and message.tick < self._received[message.id]) else ""

    def _slot(self, name: str) -> int:
        if name not in self._slots:
            slot = self._free.pop() if self._free else len(self._ids)
            self._slots[name] = slot
            self._ids[slot : slot + 1] = [name]
        return self._slots[name]

    def _free_slots(self) -> None:
        """Free the slots of devices that are gone and in none of the skylines that count."""
        if len(self._slots) <= 2 * len(self._received) + _SPARE:
            return
        counted = set(self._shares.counted().tolist())
        for name, slot in list(self._slots.items()):
            if name not in self._received and slot not in counted:
                del self._slots[name]
                self._free.append(slot)
                self._ids[slot] = ""

    def _forget(self, name: str) -> None:
        slot = self._slots[name]
        self.waiting.discard(name)
        self._early.pop(slot, None)
        self._runs.pop(name, None)
        if self._received.pop(name, None) is not None and slot < len(self._records.alive):
            self._records.remove(np.array([slot]))

    def _row(self, values: Values) -> Floats:
        row: Floats = np.array([values]) * self._sign
        return row

    def _schedule(self, slot: int) -> Message:
        name = self._ids[slot]
        mode = SAMPLE if self._records.mode[slot] == SAMPLE else ALL
        return Schedule(name, self.tick, self._runs[name], mode, self.settings.seed, self.settings.rate)

    def _filter(self, slot: int) -> Message:
        name, mode = self._ids[slot], int(self._records.mode[slot])
        if mode == ALL:
            return Filter(name, self.tick, self._runs[name])
        low, high = self._sides(slot)
        return Filter(name, self.tick, self._runs[name], mode, low, high)

    def _sides(self, slot: int) -> tuple[Values, Values]:
        """Return the bounds in the device's own columns: where more is better, low and high are swapped."""
        ends = np.sort(np.array([self._records.low[slot], self._records.high[slot]]) * self._sign, axis=0)
        return tuple(ends[0].tolist()), tuple(ends[1].tolist())
