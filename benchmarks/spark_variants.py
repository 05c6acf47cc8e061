"""What ``topwatch bench spark`` compares: an identity, the operator in its forms, and what Spark itself has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import topwatch as tw
from topwatch.datagen import generators

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("id", "x1", "x2", "x3", "x4")
K = 10
QUERIES = 10


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    batch: int  # rows of a micro-batch
    batches: int
    window: int
    small: int  # the smaller window
    few: int  # groups
    many: int
    repetitions: int  # how often all variants are timed, one after the other
    has_targets: bool = True


SCALES = {
    "tiny": Size(2_000, 2, 2_000, 200, 5, 50, 1, has_targets=False),
    "small": Size(1_000_000, 9, 1_000_000, 100_000, 100, 10_000, 3),
    "paper": Size(1_000_000, 25, 1_000_000, 100_000, 100, 10_000, 3),
}


@dataclass(frozen=True)
class Variant:
    """A stream to be measured.

    Attributes
    ----------
    name, says : str
        What it is called, and what it reports.
    beside : str
        The variant whose time it is compared with; empty for an identity.
    make : function
        From the rows' DataFrame and a folder for segments to the result.
    options : dict or None
        Of ``watch``, to compare its changes with those of a monitor; None where there is nothing to compare.
    mode : str
        Spark's output mode.
    batches : int or None
        How many micro-batches are enough, where not all of them.
    """

    name: str
    says: str
    beside: str
    make: Callable[[DataFrame, str], DataFrame]
    options: dict[str, Any] | None = None
    mode: str = "append"
    batches: int | None = None


def queries(seed: int) -> list[tw.TopK]:
    """Return ten linear queries with random weights."""
    rng = np.random.default_rng([seed, 7])
    scores = [tw.linear({f"x{i}": float(weight) for i, weight in enumerate(rng.random(4), 1)}) for _ in range(QUERIES)]
    return [tw.TopK(k=K, score=score, name=f"q{i}") for i, score in enumerate(scores)]


def write_rows(folder: Path, size: Size, seed: int) -> None:
    """Write the stream, a file for each micro-batch, in two row groups so that two tasks read it."""
    folder.mkdir(parents=True)
    for number in range(size.batches):
        table = rows(size, seed, number)
        pq.write_table(table, folder / f"{number:03d}.parquet", row_group_size=-(-size.batch // 2), compression="none")


def rows(size: Size, seed: int, number: int) -> pa.Table:
    """Return the rows of a micro-batch: id, two kinds of group, four values."""
    start = number * size.batch
    values = generators.part("ind", 4, seed, start, start + size.batch)
    rng = np.random.default_rng([seed, number])
    return pa.table(
        {
            "id": np.arange(start + 1, start + size.batch + 1),
            "few": rng.integers(0, size.few, size.batch),
            "many": rng.integers(0, size.many, size.batch),
            **{f"x{i}": column for i, column in enumerate(values, 1)},
        }
    )


def variants(size: Size, seed: int) -> list[Variant]:
    """Return all variants, in the order in which they take turns."""
    watched_queries = queries(seed)

    def watched(name: str, says: str, beside: str = "identity", **options: Any) -> Variant:
        return Variant(name, says, beside, partial(_watch, queries=watched_queries, **options), options)

    whole: dict[str, Any] = {"window": tw.last(size.window), "algorithm": "reserve"}
    return [
        Variant("identity", "every row", "", partial(_identity, columns=COLUMNS)),
        watched("pruned", "every change", window=tw.last(size.window)),
        watched("whole window", "every change", **whole),
        watched("whole, every 10,000", "changes between evaluations", every=10_000, **whole),
        watched("whole, small window", "every change", window=tw.last(size.small), algorithm="reserve"),
        Variant("identity, by few", "every row", "", partial(_identity, columns=(*COLUMNS, "few"))),
        watched(
            f"by {size.few:,} keys", "every change of each key", "identity, by few", by="few", window=whole["window"]
        ),
        Variant("identity, by many", "every row", "", partial(_identity, columns=(*COLUMNS, "many"))),
        watched(
            f"by {size.many:,} keys", "every change of each key", "identity, by many", by="many", window=whole["window"]
        ),
        Variant(
            "Spark's max_by",
            "answers per hop and micro-batch, no expiry inside",
            "identity",
            partial(_native, queries=watched_queries, window=size.window),
            mode="update",
            batches=min(size.batches, 3),  # of some ten seconds each
        ),
    ]


def _identity(df: DataFrame, segments: str, columns: tuple[str, ...]) -> DataFrame:
    rows = df.select(*columns)
    return rows.mapInArrow(_same, rows.schema)


def _same(batches: Any) -> Any:
    return batches


def _watch(df: DataFrame, segments: str, queries: list[tw.TopK], **options: Any) -> DataFrame:
    from topwatch.spark import watch

    result: DataFrame = watch(df, queries, segments=segments, **options)
    return result


def _native(df: DataFrame, segments: str, queries: list[tw.TopK], window: int) -> DataFrame:
    """Return the best k of a hopping window, as a user of Spark writes it today: a row is a second, a hop a tenth."""
    from pyspark.sql import functions as sf

    stamped = df.select("*", sf.timestamp_seconds("id").alias("ts")).withWatermark("ts", "0 seconds")
    best = []
    for query in queries:
        score = " + ".join(
            f"{weight!r}D * {name}" for name, weight in zip(query.score.columns, query.score.coefficients, strict=True)
        )
        best.append(sf.expr(f"max_by(id, {score}, {query.k})").alias(str(query.name)))
    hops = sf.window("ts", f"{window} seconds", f"{max(1, window // 10)} seconds")
    result: DataFrame = stamped.groupBy(hops).agg(*best)
    return result
