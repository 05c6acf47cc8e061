"""Snapshots, damaged and forged: whatever the bytes are, a monitor that works comes out, or a `DataError`."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from tests.support import ROOT
from tests.support.refusal import refused
from tests.support.snapshot_mutations import arrays_of, forged, mutated, use, use_server
from tests.support.snapshot_specimens import SPECIMENS, batch, specimen
from topwatch.core.saved_state import MOST
from topwatch.edge.protocol import Server
from topwatch.monitor import snapshot_format
from topwatch.monitor.grouped import GroupedMonitor

# How many mutations of each specimen; `TOPWATCH_MUTATIONS=1000` for many.
COUNT = int(os.environ.get("TOPWATCH_MUTATIONS", "10"))
SHARES = 4  # of the specimens, so that they can be tried side by side
MEMORY = 8 << 30

COUNTED = ("rows", "skipped", "evaluations", "changes", "unknown_deletes")


def made(name: str, seed: int = 5) -> Any:
    return specimen(name, np.random.default_rng(seed))


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_mutations(mode: str, share: int, tmp_path: Path, rng: np.random.Generator) -> None:
    """In a process of its own, with bounded memory: a crash in a kernel ends it, and not the tests.

    With the compiler off an index out of range is an error, which machine code would read or write silently.
    """
    paths = []
    for name in SPECIMENS[share::SHARES]:
        paths.append(tmp_path / f"{name}.blob")
        paths[-1].write_bytes(specimen(name, rng).snapshot())
    command = [sys.executable, "-m", "tests.support.snapshot_mutations", "--count", str(COUNT), "--rows", "90"]
    command += ["--seed", str(rng.integers(2**31)), *map(str, paths)]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": str(int(mode == "interpreted"))},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, f"{' '.join(command)}: after {lines[-1:]}: {ended.stderr[-2000:]}"
    assert len(lines) == COUNT * len(paths)
    refusals = sum("snapshot: " in line for line in lines)
    assert refusals > len(lines) // 2, "most mutations are refused"
    assert refusals + sum(line.endswith("accepted") for line in lines) == len(lines)


def answer_of(monitor: tw.Monitor, name: str) -> Any:
    return monitor.answers(name) if isinstance(monitor, GroupedMonitor) else monitor.answer(name)


@pytest.mark.parametrize("name", SPECIMENS)
def test_a_snapshot_goes_on_as_the_monitor(name: str, rng: np.random.Generator) -> None:
    """After queries have come and gone, so that places and groups are not in the order of the queries."""
    if name.startswith(("approx", "ahba", "amsa")) or name == "auto-load":
        pytest.skip("what an approximate algorithm has seen is not saved: docs/explanation/semantics.md")
    one = specimen(name, rng)
    other = tw.Monitor.restore(one.snapshot())
    other._check()
    for part in range(4, 9):
        rows = batch(rng, 2000 + 40 * part, 38, name)
        assert list(one.push(rows)) == list(other.push(rows))
        for query in one.queries:
            assert answer_of(one, query.name) == answer_of(other, query.name)
        assert {k: v for k, v in one.stats().items() if k in COUNTED} == {
            k: v for k, v in other.stats().items() if k in COUNTED
        }


def at(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        for key in path[:-1]:
            header = header[key]
        header[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("reserve-rows", at("feed", "end", value=161), "rows in the window"),
        ("reserve-rows", at("feed", "end", value=2**62), "from"),
        ("reserve-rows", at("window", "rows", value=10**15), "rows in the window"),
        ("reserve-time", at("queries", 1, "k", value=10**12), "answers of at most"),
        ("reserve-rows", at("queries", 0, "k", value=0), "k: expected a whole number"),
        ("reserve-rows", at("queries", 1, "name", value="far"), "names that differ"),
        ("reserve-rows", at("queries", 0, "grid", value=True), None),
        ("sma-rows", at("queries", 0, "grid", value=False), "a grid where sma has one"),
        ("reserve-rows", at("options", value={"_clock": 5}), "_clock"),
        ("reserve-rows", at("options", value={"slack": 10**9}), "slack"),
        ("sma-rows", at("options", value={"cells": 10**6}), "cells"),
        ("reserve-rows", at("columns", value=["x", "y", "w"]), "columns"),
        ("reserve-rows", at("columns", value=["x", "x", "y"]), "texts"),
        ("reserve-rows", at("id_kind", value="float64"), "ids"),
        ("reserve-rows", at("now", value=-1.0), "times"),
        ("reserve-rows", at("now", value=None), "now"),
        ("reserve-time", at("feed", "evaluated", value=3), "evaluated"),
        ("reserve-rows", at("algorithm", value="nothing"), "algorithm"),
        ("reserve-rows", at("algorithm", value=["sma"]), "algorithm"),
        ("reserve-rows", at("more", value=1), "no such field"),
        ("reserve-latest", at("feed", "tick", value=3), "tick"),
        ("reserve-latest", at("feed", "evaluated_tick", value=0), "seq|gone"),
        ("auto-load", at("load", "level", value=3), "level"),
        ("auto-late", at("waiting", "passed", value=1e9), "passed"),
        ("auto-first", at("emit", value="changes"), "no such array"),
        ("grouped-stamped", at("queries", 0, "k", value=10**7), "answers of at most"),
        ("grouped-stamped", at("time_kind", value="numbers (seconds)"), "latest"),
        ("grouped-rows", at("by", value=[]), "header: "),
        ("monitors-rows", at("queries", 0, "k", value=5), "the queries of the grouped monitor"),
        ("monitors-rows", at("id_kind", value="string"), "id_kind string in each"),
    ],
)
def test_forged_headers(name: str, change: Callable[[dict[str, Any]], None], message: str | None) -> None:
    blob = forged(made(name).snapshot(), change)
    if message is None:
        assert use(blob) == ""
        return
    with refused(tw.DataError, "snapshot", message):
        tw.Monitor.restore(blob)


@pytest.mark.parametrize("columns", [["x", "y", "z"], ["y", "z", "x"]])
def test_groups_with_columns_that_no_query_needs(columns: list[str]) -> None:
    """The monitor of a group has the columns of the grouped monitor, in their order, whatever its queries need."""
    monitor = made("grouped-rows")
    order = [list("xyz").index(name) for name in columns]
    engine = arrays_of(monitor.snapshot())["windows engine columns"][order]
    blob = forged(monitor.snapshot(), lambda header: header.update(columns=columns), windows_engine_columns=engine)
    other = tw.Monitor.restore(forged(blob, lambda header: header["queries"].pop()))
    assert other.answers("sum") == monitor.answers("sum")
    assert use(other.snapshot()) == ""
    for one in (monitor, other):
        one.add(tw.TopK(k=1, score=tw.linear(z=1.0), name="more"))
        one._check()
    assert [other.answers(name) for name in ("sum", "more")] == [monitor.answers(name) for name in ("sum", "more")]


def swapped(array: np.ndarray, one: int, other: int) -> np.ndarray:
    array = array.copy()
    array[..., [one, other]] = array[..., [other, one]]
    return array


def written(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    array = array.copy()
    array[index] = value
    return array


def as_order(values: list[Any], array: np.ndarray) -> np.ndarray:
    """Return an order column of as many rows as another one has, with these values again and again."""
    rows = len(snapshot_format.arrow_from_array("order", array))
    return snapshot_format.ids_to_array(pa.array((values * rows)[:rows]))


ARRAYS: list[tuple[str, str, Callable[[np.ndarray], np.ndarray], str]] = [
    ("reserve-rows", "columns", lambda a: a[:2], "shape"),
    ("reserve-rows", "columns", lambda a: a[:, 1:], "ids"),
    ("reserve-rows", "columns", lambda a: np.zeros(a.shape, np.int64), "float64"),
    ("reserve-rows", "ids", lambda a: a[1:], "ids"),
    ("reserve-rows", "ids", lambda a: a.astype(np.uint64), "int64"),
    ("reserve-rows", "times", lambda a: swapped(a, 0, 5), "rise"),
    ("reserve-rows", "times", lambda a: written(a, 3, np.nan), "NaN"),
    ("reserve-time", "times", lambda a: written(a, 0, -1e300), "expired"),
    ("sla-time", "times", lambda a: written(a, 0, a[0] - 1.0), "expired"),
    ("reserve-latest", "seq", lambda a: swapped(a, 0, 1), "rise"),
    ("reserve-latest", "seq", lambda a: written(a, -1, a[-1] + 9), "from 1 to"),
    ("reserve-latest", "gone", lambda a: np.full(a.size, 2**62), "gone"),
    ("reserve-latest", "gone", lambda a: written(a, slice(None), 1), "gone"),
    ("auto-strings", "ids", lambda a: written(a, slice(200, 260), 255), "ids|Arrow"),
    ("auto-first", "reported queries", lambda a: written(a, 0, 99), "from 0 to"),
    ("auto-first", "reported ticks", lambda a: written(a, 0, 0), "from"),
    ("auto-late", "waiting times", lambda a: written(a, 0, -1e9), "times from"),
    ("pa-rows", "engine 0 sizes", lambda a: written(a, 0, a[0] + 1), "shape"),
    ("pa-rows", "engine 0 ticks", lambda a: written(a, 0, 10**9), "from"),
    ("pa-rows", "engine 0 ticks", lambda a: swapped(a, 0, 1), "best first"),
    ("pa-rows", "engine 0 thresholds", lambda a: written(a, 0, np.inf), "at most"),
    ("pa-rows", "engine 0 rows", lambda a: a + 1, "from 40 to 40"),
    ("pa-rows", "answer 0 rows", lambda a: written(a, 0, a[1]), "best first|differ"),
    ("pa-rows", "answer 0 keys", lambda a: written(a, 0, -1e9), "best first"),
    ("ahba-rows", "answer 0 rows", lambda a: written(a, 0, 99), "from 0 to"),
    ("ahba-rows", "answer 0 keys", lambda a: a + 0.5, "whole numbers"),
    ("tally-rows", "engine 0 0 taken", lambda a: np.zeros_like(a), "one row of each object"),
    ("tally-rows", "engine 0 0 sources", lambda a: written(a, 0, 8), "from 0 to"),
    ("tally-rows", "engine 0 0 refused", lambda a: -a - 1, "from 0"),
    ("tally-rows", "engine 0 2 learnt", lambda a: a + np.array([[9.0], [0.0]]), "hold 0"),
    ("witness-latest", "engine 0 0 numbers", lambda a: a[::-1].copy(), "rise"),
    ("witness-latest", "engine 0 0 rows", lambda a: written(a, 0, 999), "from 0 to"),
    ("witness-latest", "engine 0 0 sizes", lambda a: written(a, 0, 2**53), "from 0 to"),
    ("grouped-rows", "windows engine count", lambda a: a - 1, "rows in all"),
    ("grouped-rows", "windows engine end", lambda a: written(a, 0, a[0] + 1), "the last evaluation saw"),
    ("grouped-rows", "windows engine end", lambda a: a + 2**53, "from"),
    ("grouped-rows", "windows engine tick", lambda a: a + 2**53, "from"),
    ("grouped-rows", "windows ids", lambda a: a[1:], "ids"),
    ("grouped-stamped", "windows engine count", lambda a: written(a, slice(0, 2), [0, a[0] + a[1]]), "evaluation saw"),
    ("grouped-stamped", "windows engine times", lambda a: written(a, -1, 2**62), "after the latest"),
    ("grouped-stamped", "windows engine times", lambda a: written(a, 0, -(2**63)), "from"),
    ("grouped-rows with times", "latest", lambda a: written(a, 0, -np.inf), "have a latest time"),
    ("grouped-rows with times", "latest", lambda a: a[:1], "have a latest time"),
    ("grouped-late", "latest", lambda a: a + 1e9, "times up to"),
    ("grouped-watermark", "waiting order 0", lambda a: as_order([[1]], a), "order"),
    ("monitors-late", "latest", lambda a: a - 1e9, "after the group's latest"),
]


@pytest.mark.parametrize(("name", "array", "change", "message"), ARRAYS, ids=[f"{a[0]}-{a[1]}-{a[3]}" for a in ARRAYS])
def test_forged_arrays(name: str, array: str, change: Callable[[np.ndarray], np.ndarray], message: str) -> None:
    blob = made(name).snapshot()
    changed = change(arrays_of(blob)[array])
    with refused(tw.DataError, "snapshot", message):
        tw.Monitor.restore(forged(blob, **{array.replace(" ", "_"): changed}))


def with_checksum(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"[" * 100_000, "JSON"),
        (b"\xff\xfe", "JSON"),
        (b'{"state": {}, "arrays": [["a", "<f8", [1152921504606846976]]]}', "bytes that are left"),
        (b'{"state": {}, "arrays": [["a", "|O8", [1]]]}', "type"),
        (b'{"state": {}, "arrays": [["a", "<f8", [4294967296, 4294967296]]]}', "bytes that are left"),
        (b'{"state": {}, "arrays": [["a", "<f8", [0, 4611686018427387904]]]}', "shape"),
        (b'{"state": {}, "arrays": [["a", "<f8", [0]], ["a", "<f8", [0]]]}', "name of its own"),
        (b'{"state": {"k": ' + b"9" * 5000 + b'}, "arrays": []}', "64 bits"),
        (b'{"state": [], "arrays": []}', "named fields"),
    ],
)
def test_forged_bytes(head: bytes, message: str) -> None:
    blob = with_checksum(b"topwatch" + struct.pack("<II", snapshot_format.VERSION, len(head)) + head)
    with refused(tw.DataError, "snapshot", message):
        tw.Monitor.restore(blob)


def test_a_header_longer_than_the_snapshot() -> None:
    with refused(tw.DataError, "snapshot", "length of the header"):
        tw.Monitor.restore(with_checksum(b"topwatch" + struct.pack("<II", snapshot_format.VERSION, 2**32 - 1) + b"{}"))


def test_every_byte_is_under_the_checksum(rng: np.random.Generator) -> None:
    blob = made("reserve-rows").snapshot()
    for index in rng.permutation(len(blob))[:300]:
        damaged = bytearray(blob)
        damaged[index] ^= 1 << int(rng.integers(8))
        with pytest.raises(tw.DataError, match="snapshot"):
            tw.Monitor.restore(bytes(damaged))


def test_an_old_snapshot_is_refused() -> None:
    blob = made("reserve-rows").snapshot()
    old = with_checksum(blob[:8] + struct.pack("<I", 1) + blob[12:-4])
    with refused(tw.DataError, "format 1", f"reads format {snapshot_format.VERSION}"):
        tw.Monitor.restore(old)


def test_monitors_of_groups_have_no_groups() -> None:
    """A chain of grouped monitors, each inside the one before it, would end the interpreter's stack."""
    monitor = tw.Monitor(tw.Skyline({"x": "min"}, name="front"), tw.last(3), by="g")
    monitor.push({"g": [1], "id": [1], "x": [1.0]})
    blob = monitor.snapshot()
    for _ in range(300):
        parts = {"windows_monitors": np.frombuffer(blob, np.uint8), "windows_monitor_sizes": np.array([len(blob)])}
        blob = forged(blob, **parts)
    with refused(tw.DataError, "snapshot", "the queries of the grouped monitor"):
        tw.Monitor.restore(blob)


def test_what_rows_are_ordered_by_has_one_type() -> None:
    blob = made("auto-watermark").snapshot()
    changed = as_order([7, 8, 9], arrays_of(blob)["waiting order 0"])
    monitor = tw.Monitor.restore(forged(blob, waiting_order_0=changed))
    before = monitor.snapshot()
    with refused(tw.DataError, "batch: order: values were int64 so far, now string"):
        monitor.push(batch(np.random.default_rng(1), 200, 9, "auto-watermark"))
    assert monitor.snapshot() == before
    monitor.release(2**62)


def test_compressed_ids_are_refused() -> None:
    """They could be small and take much memory."""
    blob = made("auto-strings").snapshot()
    held = arrays_of(blob)["columns"].shape[1]
    many = pa.record_batch([pa.array(["x" * 10_000] * held)], names=["id"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, many.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(many)
    with refused(tw.DataError, "snapshot", "compressed"):
        tw.Monitor.restore(forged(blob, ids=np.frombuffer(sink.getvalue(), np.uint8)))


def test_memory_goes_by_the_rows_and_not_by_the_window() -> None:
    big = tw.Monitor(tw.TopK(k=1, score=tw.linear(x=1.0), name="q"), window=tw.last(10**12))
    again = tw.Monitor.restore(big.snapshot())
    assert again._serving.feed.bytes() < 10_000
    rows = {"id": np.arange(5000), "x": np.arange(5000.0)}
    assert list(again.push(rows)) == list(big.push(rows))


def test_slots_that_are_used_again_keep_their_state(rng: np.random.Generator) -> None:
    """A query takes the place of one that was removed: what PA keeps belongs to queries, and not to places."""
    queries = [tw.TopK(k=2, score=tw.linear(x=weight, y=1.0), name=f"q{i}") for i, weight in enumerate((1.0, -1.0))]
    one = tw.Monitor(queries, window=tw.last(300), algorithm="pa", every=10)
    one.push(batch(rng, 0, 400))
    one.remove("q0")
    one.add(tw.TopK(k=2, score=tw.linear(x=1.0, y=-2.0), name="late"))
    other = tw.Monitor.restore(one.snapshot())
    for part in range(2):
        rows = batch(rng, 0, 400)
        assert list(one.push(rows)) == list(other.push(rows)), part


def test_servers_refuse_as_well(rng: np.random.Generator) -> None:
    server = Server({"x": "min"}, window=10)
    blob = server.snapshot()
    assert Server.restore(blob).tick == -1
    for _ in range(500):
        use_server(mutated(blob, rng))
    for change, message in (
        (at("tick", value=2**32 - 1), "tick"),
        (at("ids", value=["x" * 65]), "ids"),
        (at("ids", value=["\udcff"]), "ids"),
    ):
        with refused(tw.DataError, "snapshot", message):
            Server.restore(forged(blob, change))
    server.begin(2**32 - 1)
    server.finish()
    with refused(tw.DataError, "at most 4294967295"):
        server.begin(2**32)
    with refused(tw.DataError, "snapshot"):
        Server.restore(made("reserve-rows").snapshot())


def test_counters_at_their_limit_can_be_saved_again() -> None:
    """A forged counter may be very large; what is counted on top of it can be saved, and read again."""
    monitor = made("reserve-rows")
    header, arrays = monitor.state()
    header["counts"]["evaluations"] = header["counts"]["pairs"] = 2**63 - 1
    again = tw.Monitor.from_state(header, arrays)
    again.push(batch(np.random.default_rng(1), 10**6, 30))
    assert again.stats()["evaluations"] > MOST
    assert tw.Monitor.restore(again.snapshot()).stats()["evaluations"] == MOST


COUNTERS = [
    ("tally-rows", "engine 0 0 refused"),
    ("pa-rows", "engine 0 order"),
    ("grouped-rows", "windows counts"),
]


@pytest.mark.parametrize(("name", "array"), COUNTERS)
def test_counters_in_arrays_at_their_limit(name: str, array: str) -> None:
    blob = made(name).snapshot()
    counters = arrays_of(blob)[array]
    with refused(tw.DataError, "snapshot", "numbers from 0 to"):
        tw.Monitor.restore(forged(blob, **{array.replace(" ", "_"): written(counters, 0, -1)}))
    if "order" not in array:  # its first is an ordinal
        for most in (MOST, 2**63 - 1):
            assert use(forged(blob, **{array.replace(" ", "_"): written(counters, 0, most)})) == ""
