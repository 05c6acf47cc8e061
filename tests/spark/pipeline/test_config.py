"""Pipelines in YAML: what is read, and what it becomes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import topwatch as tw
from tests.support import ROOT
from tests.support.pipelines import EXAMPLE, pipeline
from topwatch.spark.pipeline.config.reading import parse, read

PAGE = ROOT / "docs" / "how-to" / "write-a-pipeline.md"


def test_example_becomes_queries() -> None:
    read_ = parse(EXAMPLE, folder="/work")
    assert read_.standing_queries() == [
        tw.TopK(k=10, score=tw.linear(bytes=0.7, packets=0.3), name="hot"),
        tw.Nearest(k=5, point={"lat": 45.1, "lon": 7.2}, name="near"),
        tw.Threshold(
            score=tw.expr("bytes / (1 + seconds)", increasing=["bytes"], decreasing=["seconds"]),
            above=0.9,
            name="alarm",
        ),
    ]
    assert read_.window.build() == tw.last(100_000)
    assert (read_.id, read_.time, read_.by, read_.every) == ("flow", "ts", ("region",), 1)
    assert (read_.algorithm, read_.options, read_.emit) == ("auto", {}, "changes")
    assert (read_.source.kind, read_.source.chosen.path, read_.source.chosen.format) == (
        "files", "/work/data/*.parquet", "parquet",
    )  # fmt: skip
    assert (read_.sink.kind, read_.sink.chosen.path, read_.checkpoint) == ("parquet", "/work/out/", "/work/ckpt/")


@pytest.mark.parametrize(
    ("written", "query"),
    [
        ("{top: 1, score: {product: {a: 0.1, b: 4}}}", tw.TopK(1, tw.product(a=0.1, b=4))),
        ("{top: 1, score: {quadratic: {a: -1}}}", tw.TopK(1, tw.quadratic(a=-1))),
        ("{top: 1, score: {distance: {a: 1e-3}}}", tw.TopK(1, tw.distance(a=0.001))),
        ("{top: 1, score: {linear: {net.bytes: 1, on: 2, '5': 3}}}",
         tw.TopK(1, tw.linear({"net.bytes": 1, "on": 2, "5": 3}))),
        ("{top: 1, name: no, score: {expr: a - b}}", tw.TopK(1, tw.expr("a - b"), name="no")),
        ("{top: 1, score: {expr: a, increasing: a}}", tw.TopK(1, tw.expr("a", increasing=["a"]))),
        ("{threshold: -5, score: {linear: {a: 1}}, where: {p: [0, .inf]}}",
         tw.Threshold(tw.linear(a=1), -5, where={"p": (0, float("inf"))})),
        ("{incomplete: 10, sources: [EWR, JFK], combine: mean, bounds: [0, 60], weights: {JFK: 2}, value: delay}",
         tw.IncompleteTopK(10, ["EWR", "JFK"], "mean", weights={"JFK": 2}, bounds=(0, 60), value="delay")),
        ("{incomplete: 1, sources: [1, 2], bounds: {1: [0, 1], 2: [0, 5]}, occurrences: max, source: router}",
         tw.IncompleteTopK(1, [1, 2], bounds={1: (0, 1), 2: (0, 5)}, occurrences="max", source="router")),
        ("{nearest: 3, point: {a: 1}, where: {p: [2, 2]}}", tw.Nearest(3, {"a": 1}, where={"p": (2, 2)})),
    ],
)  # fmt: skip
def test_query(written: str, query: object) -> None:
    (built,) = pipeline(queries=f"[{written}]").standing_queries()
    assert built == query
    assert built.where == query.where


@pytest.mark.parametrize(
    ("written", "window", "words"),
    [
        ("{last: 5_000}", tw.last(5000), "last 5,000 rows"),
        ("{last: 10 minutes}", tw.last("10 minutes"), "last 10 minutes"),
        ("latest", tw.latest(), "latest row of each id"),
    ],
)
def test_window(written: str, window: object, words: str) -> None:
    read_ = pipeline(window=written, id="flow", time="ts")
    assert read_.window.build() == window
    assert str(read_.window) == words


def test_sources() -> None:
    files = pipeline(
        source="{files: {path: /raw/*.jsonl.gz, schema: 'id INT, `x` INT', max_files: 3, options: {multiLine: false}}}"
    ).source.files
    assert files is not None
    assert (files.path, files.format, files.max_files, files.options) == (
        "/raw/*.jsonl.gz", "json", 3, {"multiLine": "false"},
    )  # fmt: skip
    assert files.columns() == ("id", "x")
    kafka = pipeline(
        source="{kafka: {servers: [a:1, b:2], topics: [s, t], schema: 'id INT, x INT', options: {minPartitions: 9}}}"
    ).source.kafka
    assert kafka is not None
    assert (kafka.servers, kafka.subscribed, kafka.format) == ("a:1,b:2", ("s", "t"), "json")
    assert kafka.columns() == ("id", "x")
    assert kafka.options == {"minPartitions": "9"}
    socket = pipeline(source="{socket: {host: h, port: 9, format: csv, schema: 'id INT, x INT'}}").source.socket
    assert socket is not None
    assert (socket.host, socket.port, socket.format) == ("h", 9, "csv")
    rate = pipeline(source="{rate: }", id="value", queries="[{top: 1, score: {linear: {value: 1}}}]").source.rate
    assert rate is not None
    assert rate.rows_per_second == 1
    ant = pipeline(source="{generate: ant}", queries="[{top: 1, score: {linear: {x4: 1}}}]").source.generate
    assert ant is not None
    assert (ant.kind, ant.dims, ant.rows, ant.rows_per_batch, ant.seed) == ("ant", 4, None, 100_000, 0)


@pytest.mark.parametrize("written", ["console", "{console: }", "{console: {}}", "{console: {}, kafka: null}"])
def test_console(written: str) -> None:
    sink = pipeline(sink=written).sink
    assert (sink.kind, sink.chosen.options, sink.lasting) == ("console", {}, False)


def test_sinks() -> None:
    assert pipeline(sink="memory").sink.chosen.table == "topwatch"
    assert pipeline(sink="{memory: hot}").sink.chosen.table == "hot"
    kafka = pipeline(sink="{kafka: {servers: a:1, topic: t}}", checkpoint="c").sink
    assert (kafka.kind, kafka.chosen.servers, kafka.chosen.topic, kafka.lasting) == ("kafka", "a:1", "t", True)
    jdbc = pipeline(sink="{jdbc: {url: 'jdbc:x', table: t, user: me, password_env: PW}}", checkpoint="c").sink.jdbc
    assert jdbc is not None
    assert (jdbc.url, jdbc.table, jdbc.user, jdbc.password_env) == ("jdbc:x", "t", "me", "PW")


def test_other_fields() -> None:
    read_ = pipeline(
        time="ts", by="[a, b]", lateness="10 minutes", every="1 minute", algorithm="tma", options="{cells: 12}",
        emit="answers", checkpoint="../ckpt", quarantine="{parquet: s3a://lake/bad/}", trigger="10 seconds",
        spark="{spark.ui.enabled: false, spark.sql.shuffle.partitions: 2}",
    )  # fmt: skip
    assert (read_.by, read_.lateness, read_.every, read_.trigger) == (
        ("a", "b"),
        "10 minutes",
        "1 minute",
        "10 seconds",
    )
    assert (read_.algorithm, read_.options, read_.emit) == ("tma", {"cells": 12}, "answers")
    assert (read_.checkpoint, read_.quarantine) == ("/ckpt", "s3a://lake/bad/")
    assert read_.spark == {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    with pytest.raises(ValueError, match="frozen"):
        read_.id = "other"


def test_anchors_are_followed_and_words_stay_words() -> None:
    text = """\
source: {files: 2026-11-15.csv}
window: {last: 10}
queries:
  - &hot {name: yes, top: 1, score: {linear: {off: 1}}, where: &low {port: [0, 1023]}}
  - {<<: *hot, name: on}
  - {name: 12:30, nearest: 1, point: {x: +1.5E2}, where: *low}
sink: console
"""
    queries = parse(text).standing_queries()
    assert [query.name for query in queries] == ["yes", "on", "12:30"]
    assert [query.where for query in queries] == [{"port": (0.0, 1023.0)}] * 3
    assert queries[1].score == tw.linear(off=1)
    assert queries[2].score == tw.distance(x=150)


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    path = tmp_path / "p.yml"
    path.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode())
    assert len(read(path).queries) == 3


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "p.yml").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    read_ = read("conf/p.yml")
    assert read_.checkpoint == f"{tmp_path}/conf/ckpt/"
    assert read_.source.chosen.path == f"{tmp_path}/conf/data/*.parquet"


def test_example_of_the_docs() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert blocks
    assert all(parse(block).queries for block in blocks)
