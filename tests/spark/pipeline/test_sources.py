"""What sources give: their columns, the reason why a row cannot be used, and the order that rows had."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import topwatch as tw
from tests.support.pipelines import source_part
from tests.support.refusal import refused
from tests.support.servers.loopback import HOST
from topwatch.datagen import flows, generators
from topwatch.spark.pipeline.sources import Source, open_source

SCHEMA = "flow string, bytes double, packets bigint, ts timestamp"


def taken(frame: DataFrame, table: str = "taken") -> list[Row]:
    """Run a stream over what there is now and return its rows."""
    query = frame.writeStream.format("memory").queryName(table).trigger(availableNow=True).start()
    query.awaitTermination()
    return list(frame.sparkSession.table(table).collect())


def files(spark: SparkSession, folder: Path, form: str, **settings: Any) -> Source:
    return open_source(
        spark, source_part("files", **{"path": str(folder), "format": form, "schema": SCHEMA, **settings})
    )


def test_json_lines_have_columns_or_a_problem(spark: SparkSession, tmp_path: Path) -> None:
    lines = {
        '{"flow": "a", "bytes": 1.5, "packets": 2, "ts": "2024-01-01T00:00:01Z"}': None,
        '{"flow": 7, "bytes": "2.5", "packets": "3"}': None,  # numbers in quotes are read, numbers as ids too
        '{"flow": "b", "bytes": null}': None,
        '{"flow": "c", "bytes": NaN, "more": {"x": [1]}}': None,
        '{"flow": "d", "bytes": "abc"}': "column 'bytes': expected double, got 'abc'",
        '{"flow": "e", "bytes": true}': "column 'bytes': expected double, got 'true'",
        '{"flow": "f", "packets": 1.5}': "column 'packets': expected bigint, got '1.5'",
        '{"flow": "g", "ts": "soon"}': "column 'ts': expected timestamp, got 'soon'",
        '{"flow": "h", "bytes": ': "unparsable JSON",
        "[1, 2]": "unparsable JSON",
        "nonsense": "unparsable JSON",
        '{"flow": "i"}{"flow": "j"}': "unparsable JSON: more than one object",
        '{"flow": "k", "bytes": "1"} and more': "unparsable JSON: more than one object",
    }
    (tmp_path / "a.json").write_text("\n\n".join(lines) + "\n")
    source = files(spark, tmp_path, "json")
    assert source.frame.columns == ["flow", "bytes", "packets", "ts", *source.order, "_raw", "_problem"]
    rows = taken(source.frame)
    assert {row["_raw"]: row["_problem"] for row in rows} == lines
    good = {row["flow"]: (row["bytes"], row["packets"]) for row in rows if row["_problem"] is None}
    assert good.pop("c")[0] != 0.0  # NaN is not equal to itself
    assert good == {"a": (1.5, 2), "7": (2.5, 3), "b": (None, None)}


def test_csv_lines_have_columns_or_a_problem(spark: SparkSession, tmp_path: Path) -> None:
    lines = {
        "a;1.5;2;2024-01-01T00:00:01Z": None,
        '"b;c";;;': None,
        "d;abc;1;": "column 'bytes': expected double, got 'abc'",
        "e;1;1.5;": "column 'packets': expected bigint, got '1.5'",
        "f;1": "unparsable CSV: expected 4 columns",
        "g;1;2;;": "unparsable CSV: expected 4 columns",
    }
    (tmp_path / "a.csv").write_text("\ufeffflow;bytes;packets;ts\r\n" + "\r\n".join(lines) + "\r\n\r\n")
    (tmp_path / "b.csv").write_text('"flow";"bytes";"packets";"ts"\nz;1;1;\n')
    rows = taken(files(spark, tmp_path, "csv", options={"sep": ";"}).frame)
    assert {row["_raw"]: row["_problem"] for row in rows} == {**lines, "z;1;1;": None}
    assert {row["flow"] for row in rows if row["_problem"] is None} == {"a", "b;c", "z"}


def test_a_csv_file_without_a_header_loses_no_row(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,1,1,\nflow,bytes,packets,ts\n")
    assert [row["flow"] for row in taken(files(spark, tmp_path, "csv").frame)] == ["a"]
    kept = taken(files(spark, tmp_path, "csv", options={"header": False}).frame)
    assert [row["_problem"] for row in kept] == [None, "column 'bytes': expected double, got 'bytes'"]


def test_a_problem_is_reported_whichever_columns_are_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"flow": "a", "bytes": "x"}\n{"flow": "b", "bytes": 1}\n')
    frame = files(spark, tmp_path, "json").frame
    assert [row["flow"] for row in taken(frame.where("_problem is null").select("flow"))] == ["b"]
    assert len(taken(frame.where("_problem is not null").select("_problem"))) == 1


def test_records_are_parsed_once_before_a_filter(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"flow": "a"}\n')
    frame = files(spark, tmp_path, "json").frame.where("_problem is null").select("flow", "bytes")
    query = frame.writeStream.format("memory").queryName("parsed").trigger(availableNow=True).start()
    query.awaitTermination()
    plan = query._jsq.explainInternal(False)
    assert plan.count("packets,LongType") == 1


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_files_are_in_order_however_batches_are_cut(spark: SparkSession, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate(["b", "c", "a"]):
        rows = spark.createDataFrame([(f"{name}{i}", float(number)) for i in range(3)], "flow string, bytes double")
        rows.coalesce(1).write.format(form).option("header", "true").save(str(tmp_path / name))
        (part,) = (tmp_path / name).glob("part-*")
        part.rename(folder / f"{name}.{form}")
    expected = [f"{name}{i}" for name in "bca" for i in range(3)]
    for settings in ({"max_files": 1}, {}):
        given = {"path": str(folder), "format": form, **settings}
        source = open_source(spark, source_part("files", **given))  # the schema is taken from the files
        rows = taken(source.frame)
        assert [row["flow"] for row in sorted(rows, key=lambda row: [row[name] for name in source.order])] == expected
        assert {row["bytes"] for row in rows} == {0.0, 1.0, 2.0}
        assert {row["_problem"] for row in rows} == {None}
    assert ("_raw" in source.frame.columns) == (form != "parquet")


def test_columns_in_the_names_of_folders_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "region=eu").mkdir()
    (tmp_path / "region=eu" / "a.json").write_text('{"flow": "a", "bytes": 1.0}\n')
    for schema in (None, "flow string, bytes double, region string"):
        source = open_source(spark, source_part("files", path=str(tmp_path), format="json", schema=schema))
        assert [(row["region"], row["bytes"]) for row in taken(source.frame)] == [("eu", 1.0)]


def test_rate_is_ordered_by_value(spark: SparkSession) -> None:
    source = open_source(spark, source_part("rate", rows_per_second=5, options={"numPartitions": 1}))
    assert source.frame.isStreaming
    assert source.frame.columns == ["timestamp", "value", "_problem"]
    assert source.order == ("value",)


@contextmanager
def speaking(lines: Sequence[str]) -> Iterator[int]:
    """Serve these lines to all who connect."""
    text = "".join(line + "\n" for line in lines).encode()
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(30.0)
        accepted: list[socket.socket] = []

        def serve() -> None:
            try:
                while True:
                    accepted.append(server.accept()[0])
                    accepted[-1].sendall(text)
            except OSError:
                return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in accepted:
                connection.close()


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_socket_gives_lines(spark: SparkSession, form: str) -> None:
    lines = ['{"flow": "a", "bytes": 1}', '{"flow": "b", "bytes": "x"}'] if form == "json" else ["a,1", "b,x"]
    with speaking(lines) as port:
        part = source_part("socket", host=HOST, port=port, format=form, schema="flow string, bytes double")
        source = open_source(spark, part)
        assert source.order == ()
        query = source.frame.writeStream.format("memory").queryName("socket").start()
        try:
            while spark.table("socket").count() < 2 and query.isActive:
                query.processAllAvailable()
        finally:
            query.stop()
    rows = spark.table("socket").collect()
    assert [(row["flow"], row["bytes"], row["_problem"]) for row in rows] == [
        ("a", 1.0, None),
        ("b", None, "column 'bytes': expected double, got 'x'"),
    ]


def generated(spark: SparkSession, **settings: Any) -> Source:
    return open_source(spark, source_part("generate", kind="cor", dims=3, seed=5, **settings))


@pytest.mark.parametrize("rows_per_batch", [7, 1000])
def test_generated_rows_are_those_of_the_generator(spark: SparkSession, rows_per_batch: int) -> None:
    source = generated(spark, rows=20, rows_per_batch=rows_per_batch)
    rows = sorted(taken(source.frame), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(1, 21))
    expected = generators.generate("cor", 20, 3, seed=5)
    np.testing.assert_array_equal([[row[f"x{i}"] for row in rows] for i in (1, 2, 3)], expected)


def test_generated_flows(spark: SparkSession) -> None:
    source = open_source(spark, source_part("generate", kind="flows", rows=100, seed=5))
    rows = sorted(tuple(row[name] for name in flows.SCHEMA.names) for row in taken(source.frame))
    assert rows == sorted(tuple(row.values()) for row in flows.part(5, 0, 100).to_pylist())


def test_generated_rows_without_end_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        writer = generated(spark, rows_per_batch=10).frame.writeStream.format("parquet").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(
            str(tmp_path / "out")
        ).awaitTermination()
    ids = [row["id"] for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(ids) == list(range(1, 21))


@pytest.mark.parametrize(
    ("settings", "error", "patterns"),
    [
        ({"path": "/nowhere/*.csv", "format": "csv"}, tw.DataError, ["nowhere", "schema"]),
        ({"format": "json", "schema": "a strang"}, tw.QueryError, ["schema", "strang"]),
        ({"format": "json", "schema": "a int, A int"}, tw.QueryError, ["schema", "'a'", "twice"]),
        ({"format": "json", "schema": "_raw int"}, tw.QueryError, ["schema", "_raw"]),
        ({"format": "csv", "schema": "a int, _File_Position int"}, tw.QueryError, ["schema", "_file_position"]),
        ({"format": "json", "schema": "a array<int>"}, tw.QueryError, ["'a'", "array<int>"]),
        (
            {"format": "csv", "schema": "a int", "options": {"multiLine": True}},
            tw.QueryError,
            [r"options\.multiLine", "one line"],
        ),
    ],
)
def test_what_only_spark_knows_is_refused(
    spark: SparkSession, tmp_path: Path, settings: dict[str, Any], error: type[Exception], patterns: list[str]
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"a": 1}))
    with refused(error, *patterns):
        open_source(spark, source_part("files", **{"path": str(tmp_path), **settings}))
