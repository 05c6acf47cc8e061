"""Messages, clients and the server: the wire, who is refused, and the same messages as in the simulation."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import topwatch as tw
from tests.support import moving_records
from topwatch.edge.protocol import Client, Server, messages, simulate
from topwatch.edge.protocol.messages import (
    Filter,
    Join,
    Leave,
    Message,
    Probe,
    Refusal,
    Reply,
    Schedule,
    Update,
    decode,
)
from topwatch.edge.protocol.methods import METHODS

PREFER = {"a": "min", "b": "max", "c": "min"}


class GroupedEngine:
    """A server and its clients, every message through its wire form."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clients: dict[str, Client] = {}
        self.up: Counter[int] = Counter()
        self.down: Counter[int] = Counter()
        self.bytes = 0

    def tick(self, tick: int, values: dict[str, np.ndarray]) -> None:
        self.server.begin(tick)
        for name, row in values.items():
            client = self.clients.setdefault(name, Client(name, len(PREFER)))
            self._send(tick, client.observe(tick, row))
        for name in [name for name in self.clients if name not in values]:
            self._send(tick, [self.clients.pop(name).leave()])
        while probes := self.server.ask():
            self._deliver(tick, probes)
        assert not self.server.waiting
        self._deliver(tick, self.server.finish())

    def _send(self, tick: int, sent: list[Message]) -> None:
        for message in sent:
            data = message.encode()
            self.up[tick] += 1
            self.bytes += len(data)
            assert self.server.receive(decode(data))

    def _deliver(self, tick: int, orders: list[Message]) -> None:
        for message in orders:
            data = message.encode()
            self.down[tick] += 1
            self.bytes += len(data)
            self._send(tick, self.clients[message.id].receive(decode(data)))


@pytest.mark.parametrize("shape", ["independent", "anticorrelated", "drifting", "resting", "ties", "holes"])
@pytest.mark.parametrize("method", list(METHODS))
def test_clients_say_what_the_simulation_says(method: str, shape: str, rng: np.random.Generator) -> None:
    snapshots = moving_records.SHAPES[shape](rng, 40, 30, len(PREFER))
    snapshots[0] = np.nan_to_num(snapshots[0])  # all join at once, so that slots are record numbers
    options = {"share": 0.7, "window": 15, "epsilon": 0.99, "delta": 0.6, "seed": int(rng.integers(1000))}
    report = simulate(snapshots, PREFER, method, **options)
    engine = GroupedEngine(Server(PREFER, method, **options))
    for tick, snapshot in enumerate(snapshots):
        engine.tick(tick, {str(r): row for r, row in enumerate(snapshot)})
        assert set(map(int, engine.server.frequent)) == report.answers[tick]
        assert engine.up[tick] == report.per_timestamp["uplink"][tick]
        assert engine.down[tick] == report.per_timestamp["downlink"][tick]
    assert engine.bytes == report.bytes
    assert not any(name.startswith("refused") for name in engine.server.counters)
    assert not any(client.refused for client in engine.clients.values())


@pytest.mark.parametrize("method", ["naive", "filter", "hybrid"])
def test_devices_join_and_leave(method: str, rng: np.random.Generator) -> None:
    snapshots = moving_records.independent(rng, 60, 25, len(PREFER))
    there = np.cumsum(rng.random((60, 25)) < 0.15, axis=0) % 2 == 0
    server = Server(PREFER, method, window=10, epsilon=0.99, delta=0.9)
    engine = GroupedEngine(server)
    for tick, snapshot in enumerate(snapshots):
        engine.tick(tick, {str(r): snapshot[r] for r in np.flatnonzero(there[tick])})
        snapshot[~there[tick]] = np.nan
        if server.skyline is not None:
            assert set(map(int, server.skyline)) == moving_records.skyline(snapshot, list(PREFER.values()))
        assert set(map(int, server.devices)) == set(np.flatnonzero(there[tick]).tolist())


def test_a_restored_server_goes_on_counting(rng: np.random.Generator) -> None:
    snapshots = moving_records.drifting(rng, 40, 20, len(PREFER))
    whole, cut = (GroupedEngine(Server(PREFER, window=12)) for _ in range(2))
    for tick, snapshot in enumerate(snapshots):
        values = {str(r): row for r, row in enumerate(snapshot)}
        if tick == 23:
            cut = GroupedEngine(Server.restore(cut.server.snapshot()))
        whole.tick(tick, values)
        cut.tick(tick, values)
        assert sorted(cut.server.skyline or []) == sorted(whole.server.skyline or [])
        assert sorted(cut.server.frequent) == sorted(whole.server.frequent)


@pytest.mark.parametrize(
    "message",
    [
        Join("a", 1, 2, (1.0, -math.inf)),
        Update("ä" * 32, 2**32 - 1, 2**32 - 1, (0.1,) * 32),
        Reply("x", 0, 0, (5e-324,)),
        Leave("x", 3, 9),
        Probe("x", 3, 9),
        Filter("x", 3, 9),
        Filter("x", 3, 9, 3, (-math.inf, 0.0), (0.5, math.inf)),
        Schedule("x", 3, 9, 2, 2**64 - 1, 0.25),
        Refusal("x", 3, 9, "expected 2 values, got 3"),
        Refusal("x" * 64, 3, 9, "ä" * 100),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_survive_the_wire(message: Message) -> None:
    data = message.encode()
    assert decode(data) == message
    assert len(data) <= messages.MOST_BYTES
    for end in range(len(data)):
        with contextlib.suppress(tw.DataError):
            assert decode(data[:end]) != message
    for damaged in (b"\x00" + data[1:], data[:1] + b"\x63" + data[2:], data + b"\x00" * 3, data * 50):
        with pytest.raises(tw.DataError):
            decode(damaged)


def test_any_bytes_are_a_message_or_refused(rng: np.random.Generator) -> None:
    for _ in range(3000):
        data = bytearray(rng.bytes(int(rng.integers(0, 80))))
        data[:2] = bytes([1, int(rng.integers(0, 10))])
        try:
            again = decode(bytes(data))
        except tw.DataError:
            continue
        assert decode(again.encode()) == again or any(map(math.isnan, getattr(again, "values", ())))


def test_what_does_not_fit_is_refused_and_counted() -> None:
    server = Server(PREFER)
    engine = GroupedEngine(server)
    engine.tick(0, {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([2.0, 1.0, 4.0])})
    server.begin(1)
    assert server.receive(Update("a", 1, 0, (1.0, 2.5, 3.0)))
    before = server.snapshot(), server.devices
    refused = {
        "unknown": Update("c", 1, 0, (1.0, 2.0, 3.0)),
        "run": Update("a", 1, 7, (0.0, 9.0, 0.0)),
        "columns": Update("a", 1, 0, (0.0, 9.0)),
        "unasked": Reply("a", 1, 0, (0.0, 9.0, 0.0)),
        "direction": Filter("a", 1, 0),
    }
    for problem, message in refused.items():
        assert not server.receive(message)
        assert server.problem == problem
        assert server.counters[f"refused_{problem}"] == 1
    for tick in (0, 2):  # a replay, and one from the future
        assert not server.receive(Update("a", tick, 0, (0.0, 9.0, 0.0)))
    assert server.counters["refused_tick"] == 2
    assert not server.receive(Leave("b", 1, 5))  # the last will of an earlier start
    assert (server.snapshot(), server.devices) == before
    assert not server.ask()
    server.finish()
    assert server.skyline == ["a"]


def test_a_client_refuses_orders_that_are_old_or_not_for_it() -> None:
    client = Client("a", 1)
    client.observe(5, [1.0])
    assert client.receive(Filter("a", 5, 0, 1, (0.0,), (2.0,))) == []
    for order in (Probe("a", 4, 0), Probe("b", 5, 0), Probe("a", 5, 1), Filter("a", 5, 0, 1, (0.0,) * 2, (1.0,) * 2)):
        assert client.receive(order) == []
    assert client.refused == 4
    assert client.receive(Probe("a", 5, 0)) == [Reply("a", 5, 0, (1.0,))]
    client.observe(6, [3.0])
    # The filter of timestamp 5 comes late: the newest values were sent already.
    assert client.receive(Filter("a", 5, 0, 1, (0.0,), (2.0,))) == []


def test_a_client_keeps_the_reason_of_a_refusal_that_is_for_it() -> None:
    client = Client("a", 3, run=7)
    assert client.receive(Refusal("a", 5, 7, "too early")) == []
    client.observe(5, [1.0, 2.0, 3.0])
    for other in (Refusal("b", 5, 7, "another device"), Refusal("a", 5, 8, "another run")):
        assert client.receive(other) == []
    assert (client.refused, client.refusal) == (3, None)
    assert client.receive(Refusal("a", 5, 7, "expected 2 values, got 3")) == []
    assert client.refusal == "expected 2 values, got 3"
    for reason in ("", "x" * 201, "two\nlines", "\x1b[2J"):
        with pytest.raises(tw.DataError, match="reason"):
            Refusal("a", 5, 7, reason)


@pytest.mark.parametrize("method", METHODS)
def test_the_server_has_the_last_values_of_devices_in_their_own_columns(method: str) -> None:
    server = Server(PREFER, method)
    engine = GroupedEngine(server)
    engine.tick(0, {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([2.0, math.nan, 4.0])})
    assert server.values("a") == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert server.values("b") is None
    assert server.values("nobody") is None
    engine.tick(1, {"b": np.array([2.0, 1.0, 4.0])})
    assert server.values("a") is None


def test_a_client_that_is_probed_too_early_replies_with_the_values_that_were_meant() -> None:
    client = Client("a", 1)
    client.observe(3, [1.0])
    assert client.receive(Filter("a", 3, 0, 1, (0.0,), (2.0,))) == []
    assert client.receive(Probe("a", 4, 0)) == []
    assert client.observe(4, [1.5]) == [Reply("a", 4, 0, (1.5,))]
    assert client.observe(5, [1.5]) == []


def test_a_silent_device_is_dropped() -> None:
    server = Server({"x": "min", "y": "min"})
    devices = {name: Client(name, 2) for name in "abc"}
    server.begin(0)
    for name, values in {"a": (1.0, 3.0), "b": (3.0, 1.0), "c": (2.0, 4.0)}.items():
        server.receive(devices[name].observe(0, values)[0])
    assert not server.ask()
    server.finish()
    server.begin(1)
    for name, values in {"b": (3.0, 1.0), "c": (2.0, 4.0)}.items():
        assert devices[name].observe(1, values) == []
    server.receive(Update("a", 1, 0, (5.0, 5.0)))  # c has no dominator any more, and must be probed
    probed = {probe.id for probe in server.ask()}
    assert probed
    assert server.ask() == []
    reported = server.drop_silent()
    assert {message.id for message in reported} == probed
    for message in reported:
        assert devices[message.id].receive(message) == []
        assert isinstance(devices[message.id].observe(2, (1.0, 1.0))[0], Join)
    while probes := server.ask():
        for probe in probes:
            server.receive(devices[probe.id].receive(probe)[0])
    server.finish()
    assert set(server.devices) == set("abc") - probed
    alive = {"a": (5.0, 5.0), "b": (3.0, 1.0), "c": (2.0, 4.0)}
    rows = np.array([alive[name] for name in server.devices])
    assert server.skyline == [server.devices[r] for r in sorted(moving_records.skyline(rows))]


def test_a_client_is_a_light_import() -> None:
    heavy = ["numpy", "numba", "pandas", "pyarrow", "pyspark", "polars", "pydantic", "rich", "click"]
    code = (
        "import sys; from topwatch.edge.protocol import Client; Client('a', 2).observe(0, (1.0, 2.0)); "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "filtre"}, "did you mean 'filter'"),
        ({"share": 0.0}, "share"),
        ({"share": 1.5}, "share"),
        ({"window": 0}, "window"),
        ({"epsilon": 1.0}, "epsilon"),
        ({"delta": True}, "delta"),
        ({"seed": -1}, "seed"),
        ({"prefer": {"a": "min"}}, "columns of prefer"),
        ({"prefer": {"a": "least", "b": "min"}}, "prefer"),
        ({"snapshots": np.zeros((2, 2))}, "shape"),
        ({"snapshots": [["x"]]}, "numbers"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, object], words: str) -> None:
    call = {"snapshots": np.zeros((2, 3, 2)), "prefer": {"a": "min", "b": "max"}, **change}
    with pytest.raises(tw.TopwatchError, match=words):
        simulate(**call)


def test_nothing_is_a_stream_too() -> None:
    for shape in ((0, 3, 2), (4, 0, 2)):
        for method in METHODS:
            report = simulate(np.zeros(shape), {"a": "min", "b": "max"}, method)
            assert report.answers == [set()] * shape[0]
            assert (report.total, report.recall, report.precision) == (0, 1.0, 1.0)
