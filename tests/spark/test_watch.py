"""``watch`` says on Spark what a monitor says: for any cut into micro-batches, after a restart, grouped or not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from python_workers import kill_workers

import topwatch as tw

QUERIES = [
    tw.TopK(k=3, score=tw.linear(x=1.0, y=0.01), name="hot"),
    tw.Nearest(k=2, point={"x": 0.5, "y": 25.0}, name="near"),
]
FILES, ROWS = 6, 300
Line = tuple[Any, ...]


class Stream:
    """A folder of files that a query reads, a few at a time."""

    def __init__(self, spark: SparkSession, folder: Path, rng: np.random.Generator, home: str = "folder") -> None:
        self.spark, self.folder, self.home = spark, folder, home
        count = FILES * ROWS
        seconds = np.arange(count) + rng.random(count)
        self.table = pa.table(
            {
                "id": [f"r{i}" for i in range(count)],
                "ts": pa.array((seconds * 1e6).astype("datetime64[us]"), pa.timestamp("us", "UTC")),
                "g": pa.array(rng.choice(np.array(["a", "b", "c", None]), count).tolist(), pa.string()),
                "x": rng.random(count).round(2),
                "y": rng.integers(0, 50, count),
            }
        )
        (folder / "in").mkdir()

    def write(self, first: int = 0, last: int = FILES, table: pa.Table | None = None) -> None:
        table = self.table if table is None else table
        for i in range(first, last):
            path = self.folder / "in" / f"{i:03d}.parquet"
            pq.write_table(table.slice(i * ROWS, ROWS), path, row_group_size=100)
            os.utime(path, (1_000_000_000 + i,) * 2)

    def read(self, files: int = 1) -> DataFrame:
        kind = self.spark.read.parquet(str(self.folder / "in")).schema
        reader = self.spark.readStream.schema(kind).option("maxFilesPerTrigger", files)
        return reader.parquet(str(self.folder / "in"))

    def run(self, frame: DataFrame, name: str = "one") -> list[Line]:
        folder = self.folder / name
        writer = frame.writeStream.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "ck"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return lines(self.spark.read.parquet(str(folder / "out")))

    @property
    def segments(self) -> str | None:
        return str(self.folder / "segments") if self.home == "folder" else None


def lines(frame: DataFrame) -> list[Line]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def wanted(
    table: pa.Table, by: str | None = None, queries: Any = QUERIES, algorithm: str = "brute", **options: Any
) -> list[Line]:
    """What monitors say, one for each group."""
    result: list[Line] = []
    for group in [None] if by is None else pc.unique(table.column(by)).to_pylist():
        part = table
        if by is not None:
            column = table.column(by)
            part = table.filter(pc.is_null(column) if group is None else pc.equal(column, group))
        monitor = tw.Monitor(queries, algorithm=algorithm, **options)
        result += [(*(() if by is None else (group,)), *change) for change in monitor.push(part)]
    return sorted(result, key=str)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, rng: np.random.Generator, home: str) -> Stream:
    return Stream(spark, tmp_path, rng, home)


@pytest.fixture
def home() -> str:
    """Where segments are, if a test does not say :data:`BOTH`."""
    return "folder"


BOTH = pytest.mark.parametrize("home", ["folder", "store"])


@BOTH
@pytest.mark.parametrize(
    ("by", "options"),
    [
        (None, {"window": tw.last(100), "every": 1}),
        (None, {"window": tw.last(600), "every": 1}),  # large enough for pruning
        (None, {"window": tw.last(400), "every": 7}),
        (None, {"window": tw.last("3 minutes"), "every": 7, "time": "ts"}),
        (None, {"window": tw.latest(), "every": 10}),
        ("g", {"window": tw.last(40), "every": 1}),
        ("g", {"window": tw.last("3 minutes"), "every": 1, "time": "ts"}),
        ("g", {"window": tw.last("3 minutes"), "every": "1 minute", "time": "ts"}),
        (None, {"window": tw.last(600), "every": 1, "emit": "first"}),
        ("g", {"window": tw.last(40), "every": 1, "emit": "first"}),
    ],
    ids=str,
)
def test_streaming_and_static_say_what_monitors_say(stream: Stream, by: str | None, options: dict[str, Any]) -> None:
    stream.write()
    expected = wanted(stream.table, by, **options)
    watched = tw.spark.watch(stream.read(files=2), QUERIES, by=by, segments=stream.segments, **options)
    assert stream.run(watched) == expected
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    assert lines(tw.spark.watch(static, QUERIES, by=by, **options)) == expected


FRONT = tw.Skyline(prefer={"x": "min", "y": "max"}, name="front")
OFTEN = tw.FrequentSkyline(prefer={"x": "min", "y": "max"}, share=0.3, snapshots=20, name="often")


@BOTH
@pytest.mark.parametrize(
    ("by", "algorithm", "options"),
    [
        (None, "auto", {"window": tw.last(300), "every": 1}),
        ("g", "auto", {"window": tw.last("3 minutes"), "every": 1, "time": "ts"}),
        ("g", "auto", {"window": tw.latest(), "every": 10}),
        (None, "sampling", {"window": tw.latest(), "every": 5, "epsilon": 0.9, "delta": 0.9, "seed": 4}),
    ],
    ids=str,
)
def test_skylines(stream: Stream, by: str | None, algorithm: str, options: dict[str, Any]) -> None:
    """The skyline and how often ids are in it, on a stream whose ids come again."""
    moving = isinstance(options["window"], type(tw.latest()))
    queries = [OFTEN, FRONT] if moving and algorithm == "auto" else OFTEN if moving else FRONT
    if moving:
        ids = pa.array([f"r{i % 40}" for i in range(FILES * ROWS)])
        stream.table = stream.table.set_column(0, "id", ids)
    stream.write()
    expected = wanted(stream.table, by, queries, "auto" if algorithm == "auto" else algorithm, **options)
    assert len(expected) > 20
    asked: dict[str, Any] = {"by": by, "algorithm": algorithm, **options}
    half = tw.spark.watch(stream.read(files=2), queries, segments=stream.segments, **asked)
    assert stream.run(half) == expected
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    assert lines(tw.spark.watch(static, queries, **asked)) == expected
    if moving:
        with pytest.raises(tw.QueryError, match="'answers' does not serve FrequentSkyline queries, whose scores move"):
            tw.spark.watch(static, queries, emit="answers", **asked)


def test_columns_may_have_any_name(stream: Stream) -> None:
    names = {"id": "row.id", "ts": "ts", "g": "the group", "x": "net.x", "y": "y`z"}
    query = tw.TopK(3, tw.linear({"net.x": 1.0, "y`z": 0.1}), name="q")
    table = stream.table.rename_columns([names[name] for name in stream.table.column_names])
    stream.write(table=table)
    options: dict[str, Any] = {"id": "row.id", "window": tw.last(40)}
    for by in (None, "the group"):
        expected = lines(tw.spark.watch(stream.spark.read.parquet(f"{stream.folder}/in"), query, by=by, **options))
        watched = tw.spark.watch(stream.read(files=2), query, by=by, segments=stream.segments, **options)
        assert stream.run(watched, f"by {by}") == expected
        if by is None:
            assert expected == sorted(map(tuple, tw.Monitor(query, **options).push(table)), key=str)


@pytest.mark.parametrize(("emit", "third"), [("changes", "op"), ("first", "op"), ("answers", "rank")])
def test_only_groups_can_be_null_in_the_result(stream: Stream, emit: Any, third: str) -> None:
    """Spark is told so; of what comes out of its stateful operator it takes everything for nullable all the same."""
    stream.write(last=1)
    query = tw.TopK(3, tw.linear({"x": 1.0}), name="q")
    for df in (stream.read(files=1), stream.spark.read.parquet(f"{stream.folder}/in")):
        schema = tw.spark.watch(df, query, tw.last(40), by="g", emit=emit, segments=stream.segments).schema
        can = {field.name: field.nullable for field in schema.fields}
        assert list(can) == ["g", "at", "query", third, "id", "score"]
        assert set(can.values()) == {True} if df.isStreaming else [name for name in can if can[name]] == ["g"]


def test_values_that_are_no_numbers_are_a_group(stream: Stream) -> None:
    nothing = np.tile([np.nan, 0.0, -0.0, 1.5, 1.5], len(stream.table) // 5)
    table = stream.table.set_column(2, "g", pa.array(nothing))
    stream.write(table=table)
    options: dict[str, Any] = {"window": tw.last(40), "by": "g"}
    static = lines(tw.spark.watch(stream.spark.read.parquet(f"{stream.folder}/in"), QUERIES, **options))
    result = stream.run(tw.spark.watch(stream.read(files=2), QUERIES, segments=stream.segments, **options))
    assert list(map(str, result)) == list(map(str, static))  # NaN is not equal to itself
    rows = table.filter(pc.is_nan(table.column("g")))
    expected = tw.Monitor(QUERIES, window=tw.last(40), algorithm="brute").push(rows)
    without = [line[1:] for line in static if np.isnan(line[0])]
    assert sorted(without, key=str) == sorted(map(tuple, expected), key=str)


@BOTH
@pytest.mark.parametrize(
    ("by", "window", "emit"),
    [(None, 50, "changes"), (None, 500, "changes"), ("g", 50, "changes"), (None, 50, "first"), ("g", 50, "first")],
)
def test_a_restart_goes_on(stream: Stream, by: str | None, window: int, emit: Any) -> None:
    def watched(files: int) -> DataFrame:
        asked: dict[str, Any] = {"by": by, "emit": emit, "segments": stream.segments}
        return tw.spark.watch(stream.read(files), QUERIES, tw.last(window), **asked)

    stream.write(0, 2)
    stream.run(watched(1))
    stream.write(2, FILES)
    assert kill_workers(stream.spark), "windows are read from their segments"
    assert stream.run(watched(3)) == wanted(stream.table, by, window=tw.last(window), emit=emit)


@BOTH
def test_whole_answers(stream: Stream) -> None:
    stream.write()
    watched = tw.spark.watch(
        stream.read(), QUERIES, tw.last(100), every=150, by="g", emit="answers", segments=stream.segments
    )
    assert watched.columns == ["g", "at", "query", "rank", "id", "score"]
    result: dict[Line, list[Line]] = {}
    for group, at, query, rank, id, score in sorted(stream.run(watched), key=lambda line: (str(line[0]), *line[1:4])):
        result.setdefault((group, at, query), []).append((rank, id, score))
    assert result
    monitors: dict[Any, tw.Monitor] = {}
    for row in stream.table.to_pylist():
        monitor = monitors.setdefault(row["g"], tw.Monitor(QUERIES, tw.last(100), every=150, algorithm="brute"))
        monitor.push({name: [row[name]] for name in ("id", "x", "y")})
        for query in ("hot", "near"):
            key = (row["g"], monitor.stats()["rows"], query)
            if key in result:
                answer = monitor.answer(query)
                assert result.pop(key) == [(rank, *entry) for rank, entry in enumerate(answer, 1)]
    assert not result


@BOTH
def test_rows_out_of_order_within_the_watermark(stream: Stream, rng: np.random.Generator) -> None:
    order = np.argsort(np.arange(FILES * ROWS) + rng.uniform(0, 50, FILES * ROWS), kind="stable")
    stream.write(table=stream.table.take(pa.array(order)))
    frame = stream.read().withWatermark("ts", "60 seconds")
    options: dict[str, Any] = {"window": tw.last("3 minutes"), "time": "ts"}
    result = stream.run(tw.spark.watch(frame, QUERIES, segments=stream.segments, **options))
    expected = wanted(stream.table, **options)
    last = max(line[0] for line in result)
    assert last > FILES * ROWS - 150, "only rows of the last minute wait"
    assert result == [line for line in expected if line[0] <= last]


@BOTH
def test_rows_that_cannot_be_used(stream: Stream) -> None:
    holes = stream.table.column("id").to_pylist()
    holes[5] = holes[900] = None
    table = stream.table.set_column(0, "id", pa.array(holes, pa.string()))
    late = table.take(pa.array([*range(1, ROWS * 3), 0, *range(ROWS * 3, FILES * ROWS)]))
    stream.write(table=late)
    bad = str(stream.folder / "bad")
    watched = tw.spark.watch(stream.read(), QUERIES, tw.last(100), time="ts", segments=stream.segments, quarantine=bad)
    good = table.filter(pc.is_valid(table.column("id"))).slice(1)
    assert stream.run(watched) == wanted(good, window=tw.last(100), time="ts")
    refused = lines(stream.spark.read.parquet(bad).select("reason", "raw"))
    assert [reason for reason, _ in refused] == ["id is null", "id is null", "too late"]
    assert '"id": "r0"' in refused[2][1]


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_segment_that_cannot_be_read_is_an_error(stream: Stream, harm: str) -> None:
    def watched() -> DataFrame:
        return tw.spark.watch(stream.read(), QUERIES, tw.last(500), algorithm="sma", segments=stream.segments)

    stream.write(0, 3)
    before = stream.run(watched())
    segment = sorted((stream.folder / "segments").rglob("*.seg"))[-1]  # older ones may not be needed any more
    if harm == "missing":
        segment.unlink()
    else:
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
    stream.write(3, FILES)
    kill_workers(stream.spark)
    with pytest.raises(StreamingQueryException, match=f"{segment.name}.*{harm}"):
        stream.run(watched())
    assert lines(stream.spark.read.parquet(str(stream.folder / "one" / "out"))) == before, "nothing wrong was written"


def test_segments_that_nobody_needs_are_removed(stream: Stream, spark: SparkSession) -> None:
    stream.write()
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "1")
    try:
        stream.run(tw.spark.watch(stream.read(), QUERIES, tw.last(50), by="g", segments=stream.segments))
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    folder = stream.folder / "segments"
    left = {path.name for path in folder.glob("*.seg")}
    notes = [json.loads(path.read_text()) for path in folder.glob("needs-*.json")]
    assert len(notes) == 4, "the last two versions of each bucket"
    assert left == {name for note in notes for name in note["names"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"queries": tw.TopK(k=1, score=tw.linear(z=1.0))},
            "queries: column 'z' is missing; columns are id, ts, g, x, y",
        ),
        ({"queries": tw.TopK(k=1, score=tw.linear(g=1.0))}, "queries: column 'g' is string; expected numbers"),
        ({"id": "idd"}, "id: column 'idd' is missing; columns are id, ts, g, x, y; did you mean 'id'"),
        ({"by": "gg"}, "by: column 'gg' is missing"),
        ({"time": "g", "window": tw.last("1 minute")}, "time: column 'g' is string; expected timestamps or numbers"),
        ({"emit": "all"}, "emit: expected 'changes', 'answers' or 'first', got 'all'"),
        ({"lateness": "1 second", "time": "ts"}, "lateness: on Spark rows wait for the watermark"),
        (
            {"max_lag": "1 second", "time": "ts"},
            "max_lag: on Spark a micro-batch that is tried again must give the same",
        ),
        ({"window": 5}, "window: expected last"),
        ({"algorithm": "sma", "window": tw.latest()}, "algorithm: 'sma' cannot serve"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    stream: Stream, change: dict[str, Any], message: str
) -> None:
    stream.write(0, 1)
    options: dict[str, Any] = {"queries": QUERIES, "window": tw.last(10), **change}
    with pytest.raises(tw.TopwatchError) as raised:
        tw.spark.watch(stream.read(), **options)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


SOURCES = ["north", "south", "west"]
GATHERED = [
    tw.IncompleteTopK(k=3, sources=SOURCES, source="seen at", bounds=(0, 1), name="once"),
    tw.IncompleteTopK(k=2, sources=SOURCES[::-1], source="seen at", occurrences="sum", name="often"),
    tw.TopK(k=2, score=tw.linear(value=1.0), name="rows"),
]


@pytest.fixture
def objects(spark: SparkSession, tmp_path: Path, rng: np.random.Generator, home: str) -> Stream:
    made = Stream(spark, tmp_path, rng, home)
    count = FILES * ROWS
    made.table = pa.table(
        {
            "id": [f"object {i}" for i in rng.integers(0, 60, count)],
            "seen at": pa.array(rng.choice(np.array([*SOURCES, "east", None]), count).tolist(), pa.string()),
            "value": rng.random(count).round(2) * 1.1,
        }
    )
    return made


@BOTH
def test_incomplete_objects(objects: Stream) -> None:
    every = 7

    def watched(files: int) -> DataFrame:
        return tw.spark.watch(objects.read(files), GATHERED, tw.last(150), every=every, segments=objects.segments)

    monitor = tw.Monitor(GATHERED, tw.last(150), every=every)
    expected = sorted((tuple(change) for change in monitor.push(objects.table)), key=str)
    objects.write(0, 2)
    objects.run(watched(1))
    objects.write(2, FILES)
    assert kill_workers(objects.spark), "the state is read again"
    assert objects.run(watched(3)) == expected
    static = objects.spark.read.parquet(str(objects.folder / "in"))
    assert lines(tw.spark.watch(static, GATHERED, tw.last(150), every=every)) == expected


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        ({"source": "sen at"}, tw.DataError, "source: column 'sen at' is missing; .*did you mean 'seen at'"),
        ({"source": "value", "value": "seen at"}, tw.DataError, "source: column 'value' is double"),
    ],
)
def test_sources_that_are_not_there(
    objects: Stream, said: dict[str, Any], error: type[Exception], message: str
) -> None:
    objects.write(0, 1)
    static = objects.spark.read.parquet(str(objects.folder / "in"))
    with pytest.raises(error, match=message):
        tw.spark.watch(static, tw.IncompleteTopK(k=1, sources=SOURCES, **said), tw.last(5))


def test_objects_have_no_whole_answers(objects: Stream) -> None:
    objects.write(0, 1)
    static = objects.spark.read.parquet(str(objects.folder / "in"))
    with pytest.raises(tw.QueryError, match="emit: 'answers' does not serve IncompleteTopK queries"):
        tw.spark.watch(static, GATHERED, tw.last(5), emit="answers")
