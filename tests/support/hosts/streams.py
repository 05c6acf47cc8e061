"""Streams for several hosts: every kind of query, with and without groups, and what a ``Monitor`` answers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import topwatch as tw

Line = tuple[Any, ...]

FILES = 3  # in a micro-batch: each is a task
ROWS = 400  # of a file
BEGINNING = 1_000_000_000  # seconds
_PREFER = {"x": "max", "y": "min"}
_RANKED = (
    tw.TopK(k=5, score=tw.linear(x=1.0, y=0.01), name="top"),
    tw.Nearest(k=3, point={"x": 0.5, "y": 25.0}, name="near"),
)
_OTHERS = (
    tw.Threshold(score=tw.linear(x=1.0), above=0.985, name="above"),
    tw.Dominating(k=3, prefer=_PREFER, name="rivals"),
    tw.Skyline(prefer=_PREFER, name="front"),
)


@dataclass(frozen=True)
class Stream:
    """What is watched: the arguments of ``watch``, but for where its state is."""

    queries: tuple[Any, ...]
    window: Any
    every: Any = 1
    by: str | None = None
    time: str | None = None
    id: str = "id"
    algorithm: str = "auto"

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that ``watch`` and ``Monitor`` have in common."""
        return {name: getattr(self, name) for name in ("window", "every", "time", "id", "algorithm")}


def _streams() -> dict[str, Stream]:
    things = tw.last(500)
    frequent = tw.FrequentSkyline(prefer=_PREFER, share=0.3, snapshots=20, name="often")
    parts = tw.IncompleteTopK(k=4, sources=["a", "b", "c"], combine="sum", name="parts")
    plain = {
        "ranking": Stream((*_RANKED, *_OTHERS), tw.last(700), every=20),
        "timed": Stream(_RANKED, tw.last("40 seconds"), every="2 seconds", time="ts"),
        "latest": Stream((frequent, *_OTHERS[1:]), tw.latest(), every=15, id="thing"),
        "incomplete": Stream((parts,), things, every=5, id="thing"),
    }
    grouped = {f"{name}-by": Stream(**{**vars(stream), "by": "g"}) for name, stream in plain.items()}
    # Both have the same queries: of the first only rows that can be an answer travel, of the other the whole window.
    pruned = {"pruned": Stream(_RANKED, tw.last(2000)), "whole": Stream(_RANKED, tw.last(2000), algorithm="sma")}
    return {**pruned, **plain, **grouped}


STREAMS = _streams()


def rows(seed: int, number: int) -> pa.Table:
    """Return the rows of a file."""
    rng = np.random.default_rng([seed, number])
    first = ROWS * number
    seconds = np.arange(first, first + ROWS) / 25
    return pa.table(
        {
            "id": np.arange(first, first + ROWS),
            "thing": rng.integers(0, 150, ROWS),
            "ts": pa.array(((BEGINNING + seconds) * 1e6).astype("datetime64[us]"), pa.timestamp("us", "UTC")),
            "g": pa.array(np.array([*"abcdefghij", None])[rng.integers(0, 11, ROWS)].tolist(), pa.string()),
            "x": rng.random(ROWS).round(3),
            "y": rng.integers(0, 50, ROWS).astype(float),
            "source": rng.choice(list("abc"), ROWS).tolist(),
            "value": rng.random(ROWS).round(2),
        }
    )


def write(folder: Path, seed: int, batches: int, empty: int = 0) -> None:
    """Put the files of so many micro-batches there, the first ones without rows; those that are there already stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(batches * FILES):
        path = folder / f"{number:05d}.parquet"
        if not path.exists():
            table = rows(seed, number)
            pq.write_table(table[:0] if number < empty * FILES else table, path.with_suffix(".new"))
            os.utime(path.with_suffix(".new"), (BEGINNING + number,) * 2)
            path.with_suffix(".new").rename(path)


@cache
def expected(name: str, seed: int, batches: int, empty: int = 0) -> tuple[Line, ...]:
    """Return the changes that monitors give, one for each group."""
    stream = STREAMS[name]
    table = pa.concat_tables(
        [rows(seed, number) for number in range(batches * FILES)][empty * FILES :] or [rows(seed, 0)[:0]]
    )
    result: list[Line] = []
    groups = pc.unique(table.column("g")).to_pylist() if stream.by else [None]
    for group in groups:
        part = table
        if stream.by:
            part = table.filter(pc.is_null(table["g"]) if group is None else pc.equal(table["g"], group))
        monitor = tw.Monitor(list(stream.queries), **stream.settings)
        result += [(*((group,) if stream.by else ()), *change) for change in monitor.push(part)]
    return tuple(result)


def compare(name: str, result: Sequence[Line], wanted: Sequence[Line], whole: bool) -> str | None:
    """Say what is wrong with changes, or None; with ``whole`` false they may end before the stream does."""
    grouped = STREAMS[name].by is not None
    if not whole:  # each group's changes are right as far as they go
        last: dict[Any, int] = {}
        for line in result:
            group, at = (line[0], line[1]) if grouped else (None, line[0])
            last[group] = max(at, last.get(group, 0))
        wanted = [line for line in wanted if line[grouped] <= last.get(line[0] if grouped else None, 0)]
    have, want = Counter(result), Counter(wanted)
    if have == want:
        return None
    more, fewer = have - want, want - have
    example = min(map(str, more or fewer))
    return f"{more.total()} changes too many, {fewer.total()} missing, of {want.total()}; such as {example}"
