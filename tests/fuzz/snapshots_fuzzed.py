"""Snapshots with bytes, numbers or fields changed: refused, or a monitor that works. Seen in a process of its own."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import topwatch as tw
from tests.fuzz import lives, random_queries
from tests.fuzz.cases import Case, Target
from tests.fuzz.monitors import batch_kind_of, every_of, ids_of, rows_of, settings, simpler, time_of
from tests.fuzz.random_queries import pick
from tests.support.snapshot_mutations import mutated, use, use_server
from topwatch.algorithms.registry import algorithms
from topwatch.edge.protocol import Server
from topwatch.edge.protocol.messages import Join
from topwatch.testing.lockstep import as_every, as_query, as_window
from topwatch.testing.oracle import Window


def make(rng: np.random.Generator) -> Case:
    case = lives.life(rng, [*algorithms(), "auto"])
    kinds = {"server": bool(rng.random() < 0.1), "by": bool(rng.random() < 0.3)}
    return {**case, **kinds, "mutation": int(rng.integers(0, 2**31))}


def run(case: Case) -> None:
    rng = np.random.default_rng(case["mutation"])
    if case["server"]:
        use_server(mutated(_server_snapshot(rng), rng))
        return
    try:
        blob = _monitor(case).snapshot()
    except tw.TopwatchError:  # which settings are refused is what others test
        return
    use(mutated(blob, rng))  # which says why a restore refuses it; nothing may be refused after that


def _monitor(case: Case) -> tw.Monitor:
    monitor = tw.Monitor(
        [as_query(random_queries.load(query)) for query in case["queries"]],
        window=as_window(Window(*case["window"])),
        every=as_every(every_of(case)),
        algorithm=case["algorithm"],
        **settings(case),
        **({"by": "group"} if case["by"] else {}),
    )
    for verb, *what in case["steps"]:
        with contextlib.suppress(tw.TopwatchError):
            _do(monitor, case, verb, what)
    return monitor


def _do(monitor: tw.Monitor, case: Case, verb: str, what: list[Any]) -> None:
    if verb == "push":
        rows = rows_of(case, what[1])
        rows["group"] = np.arange(len(rows["id"])) % 3
        monitor.push(batch_kind_of(what[0])(rows))
    elif verb == "add":
        monitor.add(as_query(random_queries.load(what[0])))
    elif verb == "remove":
        monitor.remove(what[0])
    elif verb == "delete":
        monitor.delete(ids_of(case, what[0]), **({"by": 1} if case["by"] else {}))
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
