"""From topic to topic through a real broker, with rows that cannot be read and batches that are tried again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tests.support.change_files import ChangeFiles
from tests.support.pipelines import sink_part, source_part
from tests.support.servers.kafka import PARTITIONS, connector, kafka
from tests.support.servers.maven_jars import UnavailableError
from topwatch.spark.pipeline.sinks import start
from topwatch.spark.pipeline.sources import Source, open_source

SCHEMA = "flow string, bytes double"


@pytest.fixture(scope="module")
def servers(spark: SparkSession) -> Iterator[str]:
    try:
        connector()
        with kafka() as address:
            yield address
    except UnavailableError as error:
        pytest.skip(str(error))


def send(spark: SparkSession, servers: str, topic: str, values: list[str | None]) -> None:
    rows = spark.createDataFrame([(str(i), value) for i, value in enumerate(values)], "key string, value string")
    rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()


def received(spark: SparkSession, servers: str, topic: str) -> list[tuple[str, dict[str, Any], dict[str, str]]]:
    """Return the records of a topic: key, value and headers."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    rows = reader.option("includeHeaders", "true").load().orderBy("partition", "offset").collect()
    return [
        (bytes(row["key"]).decode(), json.loads(row["value"]), {h["key"]: h["value"].decode() for h in row["headers"]})
        for row in rows
    ]


def opened(spark: SparkSession, servers: str, topic: str) -> Source:
    earliest = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 3}
    return open_source(spark, source_part("kafka", servers=servers, topic=topic, schema=SCHEMA, options=earliest))


def heavy(source: Source) -> DataFrame:
    rows = source.frame.where("_problem is null and bytes >= 4")
    return rows.select(sf.lit("hot").alias("query"), "flow", "bytes", sf.lit(None).cast("double").alias("score"))


def test_topic_to_topic(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    sink = sink_part("kafka", servers=servers, topic="out")
    for flows in (range(6), range(6, 9)):  # the second run goes on where the first one stopped
        send(spark, servers, "in", [json.dumps({"flow": f"f{i}", "bytes": i}) for i in flows])
        query = start(heavy(opened(spark, servers, "in")), sink, str(tmp_path / "ckpt"), "p", "once")
        query.awaitTermination()
    records = received(spark, servers, "out")
    assert sorted(value["flow"] for _, value, _ in records) == ["f4", "f5", "f6", "f7", "f8"]
    assert {key for key, _, _ in records} == {"hot"}
    assert all(value.keys() == {"query", "flow", "bytes", "score"} for _, value, _ in records)  # nulls are there too
    assert {headers["topwatch-query-id"] for _, _, headers in records} == {query.id}
    assert len({headers["topwatch-batch"] for _, _, headers in records}) > 1


def test_a_repeated_batch_can_be_recognised(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    send(spark, servers, "again", [json.dumps({"flow": f"f{i}", "bytes": 9}) for i in range(3)])
    for _ in range(2):
        sink = sink_part("kafka", servers=servers, topic="repeated")
        frame = heavy(opened(spark, servers, "again"))
        start(frame, sink, str(tmp_path / "ckpt"), "p", "once").awaitTermination()
        # as after a crash between the batch and Spark's note that it is done
        for note in (tmp_path / "ckpt" / "commits").glob("*0*"):
            note.unlink()
    records = received(spark, servers, "repeated")
    assert len(records) == 6
    assert len({(*headers.values(),) for _, _, headers in records}) == 3
    assert len({(json.dumps(value), *headers.values()) for _, value, headers in records}) == 3


def test_records_stay_in_the_order_of_the_changes(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    changes = ChangeFiles(spark, tmp_path / "in")
    numbers = changes.add(20)
    falling = changes.frame().withColumn("at", -sf.col("at"))
    sink = sink_part("kafka", servers=servers, topic="ordered")
    start(falling, sink, str(tmp_path / "ckpt"), "p", "once").awaitTermination()
    records = received(spark, servers, "ordered")
    assert [-value["at"] for _, value, _ in records] == numbers
    assert [headers["topwatch-row"] for _, _, headers in records] == [str(number) for number in reversed(numbers)]


def test_bad_records_have_a_problem_and_all_have_their_partition_and_offset(spark: SparkSession, servers: str) -> None:
    values = ['{"flow": "a", "bytes": 1}', '{"flow": "b", "bytes": "x"}', "no", None, ""]
    send(spark, servers, "mixed", [*values, *['{"flow": "c"}'] * 20])
    source = opened(spark, servers, "mixed")
    query = source.frame.writeStream.format("memory").queryName("mixed").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = spark.table("mixed").collect()
    assert sorted(row["_problem"] for row in rows if row["_problem"]) == [
        "column 'bytes': expected double, got 'x'",
        "empty record",
        "empty record",
        "unparsable JSON",
    ]
    indices = [tuple(row[name] for name in source.order) for row in rows]
    assert len(set(indices)) == len(rows) == 25
    assert len({row["_kafka_partition"] for row in rows}) == PARTITIONS
