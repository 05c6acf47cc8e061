"""Snapshots with bytes, numbers or fields changed: refused, or a monitor that works. Seen in a process of its own."""

from __future__ import annotations

import contextlib
import struct
import zlib
from typing import Any

import numpy as np
from lockstep import as_every, as_query, as_window
from oracle import Window

import topwatch as tw
from fuzz import asked, lives
from fuzz.asked import pick
from fuzz.cases import Case, Target
from fuzz.monitors import carrier_of, every_of, ids_of, rows_of, settings, simpler, time_of
from fuzz.words import bytes_changed
from topwatch.algorithms.registry import algorithms
from topwatch.edge.protocol import Server
from topwatch.edge.protocol.messages import Join

try:
    from mutations import mutated, use
except ImportError:

    def mutated(blob: bytes, rng: np.random.Generator) -> bytes:
        """Change bytes, and let the checksum fit now and then."""
        body = bytes_changed(rng, blob[:-4])
        return body + (blob[-4:] if rng.random() < 0.3 else struct.pack("<I", zlib.crc32(body)))

    def use(blob: bytes) -> str:
        """Restore it and work with it."""
        try:
            monitor = tw.Monitor.restore(blob)
        except tw.DataError as error:
            return str(error)
        for query in monitor.queries:
            monitor.answer(query.name)
        monitor.stats()
        return ""


def make(rng: np.random.Generator) -> Case:
    case = lives.life(rng, [*algorithms(), "auto"])
    return {**case, "server": bool(rng.random() < 0.1), "mutation": int(rng.integers(0, 2**31))}


def run(case: Case) -> None:
    rng = np.random.default_rng(case["mutation"])
    if case["server"]:
        blob = bytes_changed(rng, _server_snapshot(rng))
        with contextlib.suppress(tw.TopwatchError):
            server = Server.restore(blob)
            server.begin(server.tick + 1)
            server.receive(Join("a", server.tick, 0, (1.0, 2.0)))
            server.finish()
        return
    with contextlib.suppress(tw.TopwatchError):
        use(mutated(_monitor(case).snapshot(), rng))


def _monitor(case: Case) -> tw.Monitor:
    monitor = tw.Monitor(
        [as_query(asked.load(query)) for query in case["queries"]],
        window=as_window(Window(*case["window"])),
        every=as_every(every_of(case)),
        algorithm=case["algorithm"],
        **settings(case),
    )
    for verb, *what in case["steps"]:
        with contextlib.suppress(tw.TopwatchError):
            _do(monitor, case, verb, what)
    return monitor


def _do(monitor: tw.Monitor, case: Case, verb: str, what: list[Any]) -> None:
    if verb == "push":
        monitor.push(carrier_of(what[0])(rows_of(case, what[1])))
    elif verb == "add":
        monitor.add(as_query(asked.load(what[0])))
    elif verb == "remove":
        monitor.remove(what[0])
    elif verb == "delete":
        monitor.delete(ids_of(case, what[0]))
    elif verb == "advance":
        monitor.advance(time_of(case, what[0]))


def _server_snapshot(rng: np.random.Generator) -> bytes:
    server = Server({"x": "min", "y": "max"}, pick(rng, ["naive", "filter", "sampling"]), window=3)
    for tick in range(4):
        server.begin(tick)
        for name in "abc" if tick == 0 else "":
            server.receive(Join(name, tick, 0, tuple(rng.random(2).tolist())))
        server.ask()
        server.drop_silent()
        server.finish()
    return server.snapshot()


TARGET = Target("snapshots", make, run, simpler, share=1.5, short=25)
