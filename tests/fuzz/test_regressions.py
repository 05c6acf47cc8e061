"""What ``make fuzz`` has found, one small case each; those of pipeline files lie in ``tests/spark/pipeline``."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import topwatch as tw
from tests.support.refusal import refused
from topwatch.edge.mqtt.connection import Broker, Topics, checked_id
from topwatch.edge.protocol.messages import FILTER, MIXED, SAMPLE, Join, Leave, Schedule, Update, decode
from topwatch.edge.protocol.server import Server
from topwatch.monitor.stream_settings import Settings
from topwatch.testing.lockstep import Lockstep
from topwatch.testing.oracle import Query, Window
from topwatch.testing.oracle_scores import Score

TOP = tw.TopK(k=2, score=tw.linear(x=1.0), name="top")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (np.array(5.0), r"column 'x': expected one dimension, got shape \(\)"),
        (np.zeros((2, 2)), r"column 'x': expected one dimension, got shape \(2, 2\)"),
        (pd.DataFrame({"x": [1.0, 2.0]}), "column 'x': expected one dimension, got a DataFrame"),
        (pd.Series(pd.period_range("2026-01", periods=2, freq="M")), "column 'x' is .*; expected numbers"),
        (pd.Series(pd.interval_range(0, 2, 2)), "column 'x' .*"),
        (pl.Series([object(), object()], dtype=pl.Object), "column 'x' has Python objects"),
        (np.ma.masked_array(["a", "b"], mask=[True, False]), "column 'x' is string; expected numbers"),
        (pa.table({"x": [1.0, 2.0]}), "column 'x'.*"),
        ({1.0, 2.0}, "column 'x': expected an array"),
        (b"ab", "column 'x': expected an array"),
        ([10**30, 1], "column 'x': expected numbers .*"),
    ],
)
def test_columns_that_are_refused(column: Any, text: str) -> None:
    m = tw.Monitor(TOP, window=tw.last(5))
    with refused(tw.DataError, text):
        m.push({"id": [1, 2], "x": column})
    assert m.stats()["rows"] == 0


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, None], dtype="Int64"),
        pa.RunEndEncodedArray.from_arrays([1, 2], [1.0, None]),
        np.ma.masked_array([1.0, 2.0], mask=[False, True]),
        pd.Index([1.0, float("nan")]),
    ],
)
def test_columns_that_are_taken(column: Any) -> None:
    m = tw.Monitor(TOP, window=tw.last(5))
    m.push({"id": [1, 2], "x": column})
    assert m.answer() == [tw.Entry(1, 1.0)]
    assert m.stats()["skipped"] == 1


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([[1], [2]], r"id column 'id' is list<item: int64>; expected numbers, text, bytes or times"),
        ([{"a": 1}, {"a": 2}], "id column 'id' is struct<a: int64>"),
        (np.ma.masked_array([1, 2], mask=[True, False]), "id column 'id' has 1 nulls"),
        (pa.array([2**62, 0], pa.timestamp("s")), "column 'id' cannot be read"),
        (pl.Series([object(), object()], dtype=pl.Object), "column 'id' has Python objects"),
    ],
)
def test_ids_that_are_refused(ids: Any, text: str) -> None:
    m = tw.Monitor(TOP, window=tw.latest())
    with refused(tw.DataError, text):
        m.push({"id": ids, "x": [1.0, 2.0]})


def test_times_that_are_masked_are_missing() -> None:
    m = tw.Monitor(TOP, window=tw.last("5 s"), time="t")
    with refused(tw.DataError, "time column 't' has 1 nulls"):
        m.push({"id": [1, 2], "x": [1.0, 2.0], "t": np.ma.masked_array([1.0, 2.0], mask=[False, True])})


@pytest.mark.parametrize("time", [10**310, pa.array([1, 2, 3]), np.array([1.0, 2.0])])
def test_moments_that_are_refused(time: Any) -> None:
    m = tw.Monitor(TOP, window=tw.last("5 s"), time="t")
    with refused(tw.DataError, "advance: expected a "):
        m.advance(time)


def test_deleting_what_cannot_be_an_id() -> None:
    m = tw.Monitor(TOP, window=tw.latest())
    m.push({"id": np.array([2**63], np.uint64), "x": [1.0]})
    with refused(tw.DataError, "delete: ids: ids were uint64 so far, now string"):
        m.delete(["a"])
    assert len(m.delete(np.array([2**63], np.uint64))) == 1


@pytest.mark.parametrize(
    "id", [pd.NA, np.array([1, 2]), pl.Series(["a"], dtype=pl.Categorical), datetime.date(2026, 1, 1)]
)
def test_why_of_what_cannot_be_an_id(id: Any) -> None:
    m = tw.Monitor(TOP, window=tw.last(5))
    m.push({"id": [1, 2], "x": [1.0, 2.0]})
    assert not m.why(id).live


@pytest.mark.parametrize(
    "make",
    [
        lambda: tw.last(2**62),
        lambda: tw.Monitor(TOP, tw.last(5), every=2**62),
        lambda: tw.TopK(k=10**30, score=tw.linear(x=1.0)),
        lambda: tw.linear(x=10**310),
        lambda: tw.TopK(k=1, score=tw.linear(x=1.0), where={"x": (0, 10**310)}),
        lambda: tw.IncompleteTopK(k=1, sources=[10**30]),
        lambda: tw.IncompleteTopK(k=1, sources=["a"], occurrences="sum", most=10**30),
        lambda: tw.Monitor(TOP, tw.last(5), algorithm=["sma"]),  # type: ignore[arg-type]
    ],
)
def test_numbers_beyond_all_bounds(make: Any) -> None:
    with refused(tw.TopwatchError, "expected|accepted"):
        make()


def test_messages_are_one_line_of_bounded_length() -> None:
    error = tw.DataError("batch: got [1,\n 2]" + "x" * 5000)
    assert str(error).startswith("batch: got [1, 2]xxx")
    assert len(str(error)) == 1000


def test_a_formula_that_is_nested_deeply_inside_a_call() -> None:
    with refused(tw.QueryError, "is a call"):
        tw.expr("f(" * 150 + "a" + ")" * 150)
    with refused(tw.QueryError, "accepted are numbers"):
        tw.expr("a." * 990 + "a")


def test_a_window_of_time_that_is_empty_when_it_is_saved() -> None:
    """Times of rows that come after the restore belong to those rows."""
    query = Query("q", "topk", Score("linear", (("a", 1.0),)), k=3)
    both = Lockstep([query], Window("time", 1), 1, "brute")
    both.push({"id": np.array([0]), "time": np.array([34.0]), "a": np.array([0.5])})
    both.advance(176.0)
    both.restart()
    both.push({"id": np.array([1, 2]), "time": np.array([177.0, 180.0]), "a": np.array([2.0, 1.0])})
    both.advance(180.5)
    both.advance(182.0)


def test_names_of_devices_that_are_no_text() -> None:
    """As the command line hands on bytes that are not UTF-8."""
    with refused(tw.QueryError, "id: expected 1 to 64 bytes of UTF-8"):
        checked_id("\udcff")
    with refused(tw.QueryError, "prefix: expected"):
        Topics("\udcff")
    with refused(tw.DataError, "id: expected 1 to 64 bytes of UTF-8"):
        Leave("\udcff", 0)


def test_a_message_with_a_nan_that_arithmetic_complains_of() -> None:
    """Any bytes can come: NaN whose first bit of the fraction is not set raises a flag in the processor."""
    signalling = bytes.fromhex("7ff4000000000000")
    data = Update("a", 1, 1, (1.0, 2.0)).encode()
    message = decode(data[:-8] + signalling)
    assert isinstance(message, Update)
    server = Server(prefer={"x": "min", "y": "max"}, method="naive")
    server.begin(1)
    server.receive(Join("a", 1, 1, (1.0, 2.0)))
    server.receive(Update("a", 1, 1, message.values))


@pytest.mark.parametrize("mode", [FILTER, MIXED])
def test_a_schedule_with_a_mode_that_needs_a_filter(mode: int) -> None:
    """A device without a filter cannot compare its values with one."""
    data = bytearray(Schedule("a", 1, 1, SAMPLE, 7, 0.5).encode())
    data[-17] = mode
    with refused(tw.DataError, "schedule: mode"):
        decode(bytes(data))


def test_a_broker_without_a_name() -> None:
    with refused(tw.QueryError, "host: expected the name or address of a broker"):
        Broker(host="")


@pytest.mark.parametrize("algorithm", ["cpm", "tma", "reserve"])
def test_a_grid_over_values_that_are_nearly_nothing(algorithm: str) -> None:
    queries = [Query(f"q{i}", "threshold", Score("linear", (("a", 3.0 + i),)), above=0.5) for i in range(30)]
    both = Lockstep(queries, Window("latest"), 1, algorithm)
    both.push({"id": np.arange(3), "time": np.zeros(3), "a": np.array([5e-324, 0.0, 1e-320])})
    both.push({"id": np.arange(3), "time": np.zeros(3), "a": np.array([1.0, 5e-324, -1.0])})


def test_rows_that_wait_for_a_watermark_need_times() -> None:
    """A forged snapshot could say otherwise, and the monitor that it made was one that none could be restored from."""
    with pytest.raises(tw.QueryError, match="watermark: rows are buffered by their times"):
        Settings(tw.last(3), watermark=True)
