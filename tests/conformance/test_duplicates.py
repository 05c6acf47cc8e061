"""Dominating queries over network connections, of which most are exact duplicates of others, in bursts."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

import topwatch as tw
from tests.support.real_data import real
from tests.support.sizes import COMPILED
from topwatch.testing import streams
from topwatch.testing.lockstep import Lockstep, as_changes, as_query, expect_equal
from topwatch.testing.oracle import Query, Window
from topwatch.testing.oracle_dominance import carrier

COLUMNS = ("count", "srv_count", "src_bytes", "dst_bytes", "dst_host_count", "dst_host_srv_count", "duration")
SIZE, STRETCH = (150, 700) if COMPILED else (24, 30)
ANSWERS = (1, 8, 64) if COMPILED else (1, 8)
WAYS = ("max", "min")


@pytest.fixture(scope="module")
def connections() -> dict[str, np.ndarray]:
    table = pq.read_table(real("kddcup99"), columns=list(COLUMNS))
    result = {name: table.column(name).to_numpy().astype(np.float64) for name in COLUMNS}
    return {**result, "bytes": result["src_bytes"] + result["dst_bytes"]}


def stretches(connections: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Three stretches of the file one after the other: attacks, where rows are alike, and what lies between them."""
    total = len(connections["count"])
    starts = [5_000, *rng.integers(0, total - STRETCH, 2).tolist()]
    rows = np.concatenate([np.arange(start, start + STRETCH) for start in starts])
    return {"id": np.arange(rows.size), **{name: column[rows] for name, column in connections.items()}}


@pytest.mark.parametrize("d", range(2, 9))
def test_every_update(d: int, connections: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """``floor`` equals the oracle at every update; ``eva`` and ``ada`` report the same changes and answers."""
    stream = stretches(connections, rng)
    names = [str(name) for name in rng.permutation([*COLUMNS, "bytes"])[:d]]
    prefer = tuple((name, str(rng.choice(WAYS))) for name in names)
    queries = [
        Query(f"k{k}", "dominating", carrier(prefer), k=k, prefer=prefer) for k in ((1, 8, 64) if COMPILED else (1, 8))
    ]
    both = Lockstep(queries, Window("count", SIZE), 1, "floor")
    others = {
        name: tw.Monitor([as_query(query) for query in queries], tw.last(SIZE), algorithm=name)
        for name in ("eva", "ada")
    }
    for batch in streams.pieces(stream, streams.random_sizes(rng, SIZE)):
        changes = both.push(batch)
        for name, monitor in others.items():
            expect_equal(as_changes(monitor.push(batch)), changes, f"{name}, d={d}: changes")
            for query in queries:
                expect_equal(monitor.answer(query.name), both.monitor.answer(query.name), f"{name}, d={d}: answer")
            monitor._check()
