"""Batches of any kind, numbers and ids of any type: the same results, and the user's arrays left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import topwatch as tw
from tests.support.batch_kinds import BATCH_KINDS, NULL_BATCH_KINDS, to_masked, to_table
from tests.support.exact_algorithms import ALGORITHMS
from tests.support.stream_kinds import ID_KINDS
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, plain, servable
from topwatch.testing.oracle import Change, Window
from topwatch.testing.oracle_scores import Score

WINDOWS = [Window("count", 20), Window("time", 5), Window("latest")]
TOP = mixtures.query("top", Score("linear", (("a", 1.0), ("b", -0.5))), 4)


def by_kind(window: Window) -> str:
    return window.kind


@pytest.mark.parametrize("batch_kind", BATCH_KINDS)
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
def test_kind_of_batch(window: Window, batch_kind: str, rng: np.random.Generator) -> None:
    stream = streams.make("holes", rng, 90, pool=30)
    both = Lockstep(mixtures.mixture(rng, stream, 6, 20, "holes"), window, 2)
    for batch in streams.pieces(stream, [30, 1, 0, 40]):
        both.push(batch, BATCH_KINDS[batch_kind])


@pytest.mark.parametrize("batch_kind", NULL_BATCH_KINDS)
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
def test_nulls_are_not_ranked(window: Window, batch_kind: str, rng: np.random.Generator) -> None:
    stream = streams.make("holes", rng, 90, pool=30)
    both = Lockstep(mixtures.mixture(rng, stream, 6, 20, "holes"), window, 2)
    for batch in streams.pieces(stream, [30, 1, 40]):
        both.push(batch, NULL_BATCH_KINDS[batch_kind])
    assert both.oracle.skipped > 0


def test_none_among_objects(rng: np.random.Generator) -> None:
    Lockstep([TOP], Window("count", 20)).push(streams.make("holes", rng, 60), to_masked)


def test_nulls_among_whole_numbers() -> None:
    batch = {"id": np.arange(6), "a": np.array([3.0, np.nan, 5.0, 1.0, np.nan, 2.0]), "b": np.ones(6)}
    both = Lockstep([TOP], Window("count", 4))
    both.push(batch, lambda rows: to_table(rows).set_column(1, "a", pa.array([3, None, 5, 1, None, 2], pa.int32())))
    both.push(batch, lambda rows: pd.DataFrame(rows).assign(a=pd.array([3, None, 5, 1, None, 2], "Int64")))
    assert both.oracle.skipped == 4


def test_a_column_of_nulls_only() -> None:
    batch = {"id": np.arange(3), "a": np.full(3, np.nan), "b": np.ones(3)}
    both = Lockstep([TOP], Window("count", 4))
    assert both.push(batch, lambda rows: to_table(rows).set_column(1, "a", pa.nulls(3, pa.float64()))) == []


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", ">f8"]
)
def test_type_of_numbers(dtype: str, rng: np.random.Generator) -> None:
    stream = streams.make("ties", rng, 80)
    Lockstep([TOP], Window("count", 20)).push({**stream, "a": (stream["a"] * 17).astype(dtype)})


@pytest.mark.parametrize("kind", ID_KINDS)
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
def test_type_of_ids(window: Window, kind: str, rng: np.random.Generator) -> None:
    stream = streams.make("ties", rng, 100, pool=25)
    stream["id"] = ID_KINDS[kind](stream["id"] - stream["id"].min())
    both = Lockstep(mixtures.mixture(rng, stream, 4, 20, "ties"), window)
    for batch in streams.pieces(stream, [1, 1, 1, 1, 46, 0]):
        both.push(batch)
        if window.kind == "latest" and len(batch["id"]):
            both.delete(np.unique(batch["id"][:5]))


@pytest.mark.parametrize("batch_kind", ["table", "record-batch", "pandas", "polars"])
@pytest.mark.parametrize("kind", ["int64", "uint64", "hash", "float", "str", "uuid", "datetime"])
@pytest.mark.parametrize("window", [Window("count", 20), Window("latest")], ids=by_kind)
def test_type_of_ids_in_frames(window: Window, kind: str, batch_kind: str, rng: np.random.Generator) -> None:
    """Ids to delete come as arrays, lists or columns, whatever the rows came in."""
    stream = streams.make("ties", rng, 60, pool=25)
    stream["id"] = ID_KINDS[kind](stream["id"] - stream["id"].min())
    both = Lockstep([TOP], window)
    for number, batch in enumerate(streams.pieces(stream, [20, 20])):
        both.push(batch, BATCH_KINDS[batch_kind])
        if window.kind == "latest":
            some = np.unique(batch["id"][:4])
            given: Any = [some, list(some), BATCH_KINDS[batch_kind]({"id": some})["id"]][number]
            both.compare(both.monitor.delete(given), both.oracle.delete(list(some)), f"delete of {given!r}")


@pytest.mark.parametrize("batch_kind", BATCH_KINDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_inputs_are_not_modified(algorithm: str, batch_kind: str, rng: np.random.Generator) -> None:
    stream = streams.make("infinities", rng, 120)
    before = {name: values.copy() for name, values in stream.items()}
    window = Window("count", 20)
    both = Lockstep(servable(algorithm, mixtures.mixture(rng, stream, 6, 20), window), window, 3, algorithm)
    for start in range(0, 120, 40):
        batch = streams.part(stream, start, start + 40)
        both.push(batch, BATCH_KINDS[batch_kind])
        for values in batch.values():
            values[:] = 77  # the monitor must not depend on the caller's arrays after push
    for name, values in before.items():
        assert (stream[name] == 77).all()
        stream[name] = values
    pushed = BATCH_KINDS[batch_kind](stream)
    tw.Monitor(tw.TopK(k=3, score=tw.linear(a=1.0)), window=tw.last(9), algorithm=algorithm).push(pushed)
    for name, values in before.items():
        np.testing.assert_array_equal(np.asarray(pushed[name]), values)


def test_columns_that_no_query_needs_may_hold_anything(rng: np.random.Generator) -> None:
    stream = streams.make("uniform", rng, 40)
    extra = {"note": np.array(["x"] * 40), "blob": np.array([[1], None] * 20, dtype=object)}
    Lockstep([TOP], Window("count", 9)).push(stream, lambda rows: {**rows, **extra})


def test_another_column_can_be_the_id(rng: np.random.Generator) -> None:
    stream = streams.make("uniform", rng, 40)
    monitor = tw.Monitor(tw.TopK(k=2, score=tw.linear(a=1.0)), window=tw.last(9), id="flow")
    monitor.push({"flow": stream["id"], "a": stream["a"]})
    best = np.argsort(-stream["a"][-9:])[:2] + 31
    assert [plain(entry.id) for entry in monitor.answer()] == stream["id"][best].tolist()


@pytest.mark.parametrize("kind", ["int64", "str", "datetime"])
def test_changes_as_tables(kind: str, rng: np.random.Generator) -> None:
    stream = streams.make("uniform", rng, 40)
    stream["id"] = ID_KINDS[kind](stream["id"])
    monitor = tw.Monitor(tw.TopK(k=2, score=tw.linear(a=1.0), name="best"), window=tw.last(9))
    changes = monitor.push(stream)
    expected = [Change(c.at, c.query, c.op, plain(c.id), c.score) for c in changes]
    assert len(expected) == len(changes) > 0

    def rows_of(frame: Any) -> list[Change]:
        return [Change(*row)._replace(id=plain(row[3])) for row in frame.itertuples(index=False, name=None)]

    assert list(changes.to_arrow().column_names) == list(Change._fields)
    assert rows_of(changes.to_pandas()) == expected
    assert rows_of(changes.to_arrow().to_pandas()) == expected
    nothing = monitor.push(streams.part(stream, 0, 0))
    assert list(nothing) == []
    assert list(nothing.to_arrow().column_names) == list(Change._fields)
