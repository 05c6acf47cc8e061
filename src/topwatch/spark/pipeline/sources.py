"""Where rows come from: files, Kafka, a socket, Spark's rate source, generated rows.

Every source gives a streaming DataFrame of its columns, with ``_problem`` where a row cannot be used, and the columns
that put rows back into the order in which the source had them, whatever Spark did to them since.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from topwatch.datagen import files
from topwatch.query.errors import DataError, QueryError
from topwatch.spark.pipeline.config.jars import CONNECTOR
from topwatch.spark.pipeline.config.source_models import Files, Generate, Kafka, Rate, Socket, SourcePart
from topwatch.spark.pipeline.text_rows import PROBLEM, parse, schema_of
from topwatch.spark.source_frames import FILE_POSITIONS, file_positions

GENERATED = "topwatch_generate"
_GENERATED_CHUNK = 65536  # rows of an Arrow batch
# Partition and offset are unique within a topic only.
_KAFKA_POSITION = {f"_kafka_{field}": field for field in ("timestamp", "topic", "partition", "offset")}
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Source:
    """Rows to be watched.

    Attributes
    ----------
    frame : DataFrame
        Streaming: the source's columns, the columns of ``order``, and ``_problem``, null or why the row cannot be
        used. Sources that parse text also have it, in ``_raw``.
    order : tuple of str
        Columns of the frame; rows sorted by them are in the order of the source. Empty where it is not known.
    """

    frame: DataFrame
    order: tuple[str, ...]


def open_source(spark: SparkSession, part: SourcePart) -> Source:
    """Open a source; nothing is read before the query starts, except files whose schema was not given.

    Parameters
    ----------
    spark : SparkSession
        The session to read with.
    part : SourcePart
        The source as the pipeline's file describes it.

    Raises
    ------
    QueryError
        A setting that only Spark knows makes no sense.
    DataError
        There is no file to take the schema from.

    Notes
    -----
    Kafka's timestamps are the producers' own unless the topic is configured otherwise (LogAppendTime). Where they go
    back within a partition, rows of a micro-batch are in the order of the timestamps, not in that of the offsets.
    """
    return _OPENERS[type(part)](spark, part)


def check_connector(spark: SparkSession, field: str) -> None:
    """Refuse Kafka where Spark was started without the connector, before anything runs."""
    try:
        # This connects to nothing: Spark only looks for the connector.
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", "-").option("subscribe", "-").load()
    except AnalysisException as error:
        if error.getCondition() != "KAFKA_DATA_SOURCE_NOT_ENABLED":
            raise
        package = f"{CONNECTOR}:{spark.version}"
        raise QueryError(
            f"{field}: this Spark has no Kafka connector; run it with spark.jars.packages={package}"
        ) from None


def _files(spark: SparkSession, part: Files) -> Source:
    schema = schema_of(part.ddl or _inferred(spark, part), FILE_POSITIONS)
    reader = spark.readStream.options(**part.options)
    if part.max_files is not None:
        reader = reader.option("maxFilesPerTrigger", part.max_files)
    if part.format == "parquet":
        frame = reader.schema(schema).parquet(part.path).select("*", *file_positions(), _no_problem())
    else:
        lines = reader.text(part.path).select("*", *file_positions())
        frame = _of_lines(lines, part.format, schema, part.options)
    return Source(frame, FILE_POSITIONS)


def _inferred(spark: SparkSession, part: Files) -> StructType:
    infer = {"header": "true", "inferSchema": "true"} if part.format == "csv" else {}
    try:
        schema = spark.read.format(part.format).options(**{**infer, **part.options}).load(part.path).schema
    except AnalysisException as error:
        if error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            raise
        schema = StructType()
    if not schema.fields:
        raise DataError(
            f"source.files.path: no rows at {part.path!r} to take the columns from; put a file there or give a schema"
        )
    return schema


def _kafka(spark: SparkSession, part: Kafka) -> Source:
    check_connector(spark, "source.kafka")
    schema = schema_of(part.ddl, _KAFKA_POSITION)
    reader = spark.readStream.format("kafka").options(**part.options)
    reader = reader.option("kafka.bootstrap.servers", part.servers).option("subscribe", ",".join(part.subscribed))
    columns = [sf.col(field).alias(name) for name, field in _KAFKA_POSITION.items()]
    text = reader.load().select(sf.col("value").cast("string").alias("value"), *columns)
    return Source(parse(text, part.format, schema, part.options, list(_KAFKA_POSITION)), tuple(_KAFKA_POSITION))


def _rate(spark: SparkSession, part: Rate) -> Source:
    reader = spark.readStream.format("rate").options(**part.options).option("rowsPerSecond", part.rows_per_second)
    return Source(reader.load().select("*", _no_problem()), ("value",))


def _socket(spark: SparkSession, part: Socket) -> Source:
    lines = spark.readStream.format("socket").option("host", part.host).option("port", part.port).load()
    return Source(_of_lines(lines, part.format, schema_of(part.ddl), {}), ())


def _generate(spark: SparkSession, part: Generate) -> Source:
    spark.dataSource.register(_Generated)
    options = {**part.model_dump(exclude_none=True), "slices": spark.sparkContext.defaultParallelism}
    return Source(spark.readStream.format(GENERATED).options(**options).load().select("*", _no_problem()), ())


_OPENERS: dict[type[SourcePart], Callable[[SparkSession, Any], Source]] = {
    Files: _files,
    Kafka: _kafka,
    Rate: _rate,
    Socket: _socket,
    Generate: _generate,
}


def _of_lines(lines: DataFrame, form: str, schema: StructType, options: Mapping[str, str]) -> DataFrame:
    """Parse lines of text, leaving out empty ones and, of CSV, those that repeat the names of the columns."""
    others = [name for name in lines.columns if name != "value"]
    # Columns that are in the folders' names (region=eu/) are not in the lines.
    wanted = StructType([field for field in schema.fields if field.name not in others])
    skipped = ["", *(_headers(wanted, options) if form == "csv" else [])]
    return parse(lines.where(~sf.trim("value").isin(skipped)), form, wanted, options, others)


def _headers(schema: StructType, options: Mapping[str, str]) -> list[str]:
    given = {name.lower(): value for name, value in options.items()}
    if given.get("header", "true").lower() == "false":
        return []
    separator = given.get("sep", given.get("delimiter", ","))
    plain = separator.join(schema.fieldNames())
    quoted = separator.join(f'"{name}"' for name in schema.fieldNames())
    return [mark + line for line in (plain, quoted) for mark in ("", _BYTE_ORDER_MARK)]


def _no_problem() -> Any:
    return sf.lit(None).cast("string").alias(PROBLEM)


class _Generated(DataSource):
    """Generated rows; the options are those of the source's fields."""

    @classmethod
    def name(cls) -> str:
        return GENERATED

    def schema(self) -> StructType:
        return from_arrow_schema(files.schema_of(self.options["kind"], int(self.options["dims"])))

    def streamReader(self, schema: StructType) -> _Reader:  # noqa: N802 - Spark's name
        return _Reader(dict(self.options))


class _Range(InputPartition):
    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the number of rows so far."""

    def __init__(self, options: dict[str, str]) -> None:
        self._kind, self._dims, self._seed = options["kind"], int(options["dims"]), int(options["seed"])
        self._per_batch, self._slices = int(options["rows_per_batch"]), int(options["slices"])
        self._end = int(options["rows"]) if "rows" in options else None
        self._ends_soon = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        # Rows without end are never all there: a run that takes what there is takes one batch.
        self._ends_soon = self._end is None

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        if self._ends_soon and self._end is None:
            self._end = start["rows"] + self._per_batch
        if isinstance(limit, ReadAllAvailable) and self._end is not None:
            return {"rows": max(start["rows"], self._end)}
        step = limit.max_rows if isinstance(limit, ReadMaxRows) else self._per_batch
        stop = start["rows"] + step
        return {"rows": stop if self._end is None else max(start["rows"], min(stop, self._end))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, count = start["rows"], end["rows"] - start["rows"]
        cuts = [first + count * i // self._slices for i in range(self._slices + 1)]
        return [_Range(a, b) for a, b in itertools.pairwise(cuts) if a < b]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        part = cast(_Range, partition)
        for start in range(part.start, part.stop, _GENERATED_CHUNK):
            stop = min(start + _GENERATED_CHUNK, part.stop)
            yield files.rows_between(self._kind, self._dims, self._seed, start, stop)
