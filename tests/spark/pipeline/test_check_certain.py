"""What a run is certain to fail of, ``topwatch check`` refuses, with line and field: types of columns, and jars."""

from __future__ import annotations

import datetime
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.pipelines import pipeline, written
from topwatch.query.errors import PipelineError
from topwatch.spark.pipeline.config import jars
from topwatch.spark.pipeline.config.reading import read
from topwatch.spark.pipeline.config.sink_models import Sink
from topwatch.spark.pipeline.config.source_models import Source

TABLE = pa.table(
    {
        "id": ["a", "b"],
        "x": [1.0, 2.0],
        "n": pa.array([1, 2], pa.uint8()),
        "word": pa.array(["p", "q"]).dictionary_encode(),
        "at": [datetime.datetime(2024, 1, 1)] * 2,
        "on": [True, False],
    }
)
WORDY = {
    "[{top: 1, score: {linear: {x: 1, word: 2}}}]": "queries[0].score.linear.word",
    "[{top: 1, score: {expr: x / word}}]": "queries[0].score.expr",
    "[{nearest: 1, point: {word: 2}}]": "queries[0].point.word",
    "[{dominating: 1, prefer: {x: min, word: max}}]": "queries[0].prefer.word",
    "[{skyline: {word: max}}]": "queries[0].skyline.word",
    "[{top: 1, score: {linear: {x: 1}}, where: {word: [0, 1]}}]": "queries[0].where.word",
}


def problems(path: Path, **conf: str) -> list[str]:
    try:
        read(path, conf)
    except PipelineError as error:
        return [line.removeprefix(f"{path}:") for line in error.args]
    return []


@pytest.mark.parametrize(("queries", "field"), WORDY.items())
def test_text_that_is_ranked_by_declared_schema(queries: str, field: str) -> None:
    source = "{files: {path: a.csv, schema: 'id STRING, x DOUBLE, word VARCHAR(9)'}}"
    with pytest.raises(PipelineError) as caught:
        pipeline(source=source, queries=queries)
    assert caught.value.args == (f"pipeline.yml:3: {field}: column 'word' is varchar; expected numbers",)


@pytest.mark.parametrize(("queries", "field"), WORDY.items())
@pytest.mark.parametrize("path", ["in/*.parquet", "in/", "in"])
def test_text_that_is_ranked_in_parquet_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: str, field: str, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name in "ab":
        pq.write_table(TABLE, tmp_path / "in" / f"{name}.parquet")
    (tmp_path / "p.yml").write_text(written(source=f"{{files: {{path: {path}, format: parquet}}}}", queries=queries))
    assert problems(tmp_path / "p.yml") == [f"3: {field}: column 'word' is string in in/a.parquet; expected numbers"]
    read(tmp_path / "p.yml")  # explain looks at the file of the pipeline alone


def test_what_may_be_right_is_not_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_text(written(source="{files: in/*.parquet}", queries="[{top: 1, score: {linear: {word: 1}}}]"))
    assert problems(file) == []  # no file yet
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.parquet").write_bytes(b"no Parquet")
    assert problems(file) == []
    pq.write_table(TABLE, tmp_path / "in" / "a.parquet")
    pq.write_table(TABLE.set_column(3, "word", [[1, 2]]), tmp_path / "in" / "b.parquet")
    assert problems(file) == []  # they do not agree
    file.write_text(
        written(source="{files: in/*.parquet}", queries="[{top: 1, score: {linear: {n: 1, x: 1}}}]", time="at")
    )
    assert problems(file) == []


def test_times(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    file = tmp_path / "p.yml"
    for column, kind in {"word": "string", "on": "boolean"}.items():
        file.write_text(written(source="{files: a.parquet}", time=column))
        (line,) = problems(file)
        assert line.startswith(f"5: time: column {column!r} is {kind} in ")
        assert line.endswith("; expected timestamps or numbers")
    file.write_text(written(source="{files: a.parquet}", time="x", lateness="1 minute"))
    assert problems(file)[0].endswith("; expected timestamps, which lateness needs")


KAFKA = "{kafka: {servers: b, topic: t, schema: 'id INT, x INT'}}"
SENT = "{kafka: {servers: b, topic: t}}"
TABLE_SINK = "{jdbc: {url: 'jdbc:postgresql://localhost/a', table: t}}"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"
DRIVER = "org.postgresql:postgresql:42.7.4"


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spark with one jar of its own, and nothing in the environment."""
    folder = tmp_path / "spark"
    (folder / "jars").mkdir(parents=True)
    _jar(folder / "jars" / "spark-core.jar", "org.apache.spark.SparkContext")
    for variable in jars.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(folder))
    return folder


def _jar(path: Path, name: str) -> None:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(name.replace(".", "/") + ".class", b"")


def test_kafka_without_its_connector(plain: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_text(written(source=KAFKA, sink=SENT, checkpoint="ckpt"))
    first, second = problems(file)
    assert first.startswith("1: source.kafka: Spark will have no Kafka connector; run it with spark.jars.packages=")
    assert second.startswith("4: sink.kafka: Spark will have no Kafka connector")
    assert problems(file, **{"spark.jars.packages": CONNECTOR}) == []
    assert len(problems(file, **{"spark.jars.packages": DRIVER})) == 2
    assert problems(file, **{"spark.jars.packages": f"{DRIVER},com.example:all:1"}) == []
    file.write_text(written(source=KAFKA, spark=f'{{spark.jars.packages: "{CONNECTOR}"}}'))
    assert problems(file) == []


def test_a_database_without_its_driver(plain: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_text(written(sink=TABLE_SINK, checkpoint="ckpt"))
    (line,) = problems(file)
    assert line == (
        "4: sink.jdbc: Spark will have no JDBC driver 'org.postgresql.Driver'; name its jar in spark.jars.packages or"
        " spark.jars, under spark in the file or with --conf"
    )
    assert problems(file, **{"spark.jars.packages": DRIVER}) == []
    _jar(tmp_path / "other.jar", "com.example.Driver")
    assert len(problems(file, **{"spark.jars": str(tmp_path / "other.jar")})) == 1
    _jar(tmp_path / "postgresql.jar", "org.postgresql.Driver")
    assert problems(file, **{"spark.jars": str(tmp_path / "postgresql.jar")}) == []
    assert problems(file, **{"spark.jars": "s3a://jars/postgresql.jar"}) == []
    file.write_text(written(sink="{jdbc: {url: 'jdbc:other:x', table: t}}", checkpoint="ckpt"))
    (line,) = problems(file)
    assert line == "4: sink.jdbc.options.driver: is missing, and 'other' does not tell the driver's class"


@pytest.mark.parametrize("variable", jars.VARIABLES)
def test_jars_may_come_from_elsewhere(plain: Path, variable: str) -> None:
    source = Source.model_validate({"kafka": {"servers": "b", "topic": "t", "schema": "id INT"}}).chosen
    sink = Sink.model_validate({"jdbc": {"url": "jdbc:mysql:x", "table": "t"}}).chosen
    environment = {"SPARK_HOME": str(plain)}
    assert len(list(jars.absent(source, sink, {}, environment))) == 2
    assert list(jars.absent(source, sink, {}, {**environment, variable: "something"})) == []
    assert list(jars.absent(source, sink, {"spark.driver.extraClassPath": "/jars/*"}, environment)) == []
    (plain / "conf").mkdir()
    assert list(jars.absent(source, sink, {}, environment)) == []


def test_jars_of_spark_itself_count(plain: Path, tmp_path: Path) -> None:
    _jar(plain / "jars" / "spark-sql-kafka.jar", jars.PROVIDER)
    (tmp_path / "p.yml").write_text(written(source=KAFKA))
    assert problems(tmp_path / "p.yml") == []
