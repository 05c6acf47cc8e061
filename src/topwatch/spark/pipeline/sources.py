"""Where rows come from: files, Kafka, a socket, Spark's rate source, generated rows.

Every source gives a streaming DataFrame of its columns, with ``_problem`` where a row cannot be used, and the columns
that put rows back into the order in which the source had them, whatever Spark did to them since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from topwatch.query.errors import DataError, QueryError, nearest_name
from topwatch.spark.operator.file_order import PLACES, file_places
from topwatch.spark.pipeline.generated import NAME, RowsOf, source_of
from topwatch.spark.pipeline.settings import check_connector, needed, text_options
from topwatch.spark.pipeline.text_rows import FORMATS, PROBLEM, check_options, parse, schema_of

# The topic tells apart what partition and offset alone do not.
_KAFKA_PLACE = {f"_kafka_{field}": field for field in ("timestamp", "topic", "partition", "offset")}
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
        Columns of the frame; rows sorted by them stand as they did at the source. Empty where nothing tells.
    note : str
        A sentence that says what is read and in which order.
    """

    frame: DataFrame
    order: tuple[str, ...]
    note: str


Opener: TypeAlias = Callable[[SparkSession, Mapping[str, Any]], Source]


def open_source(spark: SparkSession, kind: str, settings: Mapping[str, Any], rows_of: RowsOf | None = None) -> Source:
    """Open a source; nothing is read before the query starts, except files whose schema was not given.

    Parameters
    ----------
    spark : SparkSession
        The session to read with.
    kind : str
        ``files``, ``kafka``, ``rate``, ``socket`` or ``generate``.
    settings : mapping
        ``files``: path, format, schema, options, max_files. ``kafka``: servers, topic or topics, format, schema,
        options. ``rate``: rows_per_second, options. ``socket``: host, port, format, schema. ``generate``: kind, dims,
        rows, rows_per_batch, seed. A setting that is None counts as left out.
    rows_of : function, optional
        What makes the rows of ``generate``; see :data:`topwatch.spark.pipeline.generated.RowsOf`.

    Raises
    ------
    QueryError
        A setting is missing or makes no sense.
    DataError
        There is no file to take the schema from.

    Notes
    -----
    Kafka's timestamps are the producers' own unless the topic is configured otherwise (LogAppendTime). Where they go
    back within a partition, rows of a micro-batch stand in the order of the timestamps, not in that of the offsets.
    """
    kinds: dict[str, Opener] = {**_KINDS, "generate": partial(_generate, rows_of=rows_of)}
    if kind not in kinds:
        raise QueryError(f"source: accepted are {', '.join(kinds)}, got {kind!r}{nearest_name(kind, kinds)}")
    return kinds[kind](spark, {name: value for name, value in settings.items() if value is not None})


def _files(spark: SparkSession, settings: Mapping[str, Any]) -> Source:
    path, form = str(needed(settings, "source.files", "path")), str(needed(settings, "source.files", "format"))
    if form not in (*FORMATS, "parquet"):
        raise QueryError(f"source.files.format: accepted are {', '.join(FORMATS)} and parquet, got {form!r}")
    options = text_options(settings)
    if form != "parquet":
        check_options(options)
    schema = schema_of(settings.get("schema") or _inferred(spark, path, form, options), PLACES)
    reader = spark.readStream.options(**options)
    if "max_files" in settings:
        reader = reader.option("maxFilesPerTrigger", int(settings["max_files"]))
    if form == "parquet":
        frame = reader.schema(schema).parquet(path).select("*", *file_places(), _no_problem())
    else:
        frame = _of_lines(reader.text(path).select("*", *file_places()), form, schema, options)
    origin = "" if "schema" in settings else ", with the columns that the files there at the start have"
    note = f"{form} files {path}{origin}; rows in the order of the files' times, then as they stand there"
    return Source(frame, PLACES, note)


def _inferred(spark: SparkSession, path: str, form: str, options: Mapping[str, str]) -> StructType:
    infer = {"header": "true", "inferSchema": "true"} if form == "csv" else {}
    try:
        schema = spark.read.format(form).options(**{**infer, **options}).load(path).schema
    except AnalysisException as error:
        if error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            raise
        schema = StructType()
    if not schema.fields:
        raise DataError(
            f"source.files.path: no rows at {path!r} to take the columns from; put a file there or give a schema"
        )
    return schema


def _kafka(spark: SparkSession, settings: Mapping[str, Any]) -> Source:
    topics = settings.get("topics") or [needed(settings, "source.kafka", "topic")]
    names = [topics] if isinstance(topics, str) else list(topics)
    form = str(settings.get("format", "json"))
    schema, options = schema_of(needed(settings, "source.kafka", "schema"), _KAFKA_PLACE), text_options(settings)
    check_options(options)
    reader = spark.readStream.format("kafka").options(**options)
    reader = reader.option("kafka.bootstrap.servers", str(needed(settings, "source.kafka", "servers")))
    check_connector(spark, "source.kafka")
    records = reader.option("subscribe", ",".join(names)).load()
    index = [sf.col(field).alias(name) for name, field in _KAFKA_PLACE.items()]
    text = records.select(sf.col("value").cast("string").alias("value"), *index)
    frame = parse(text, form, schema, options, list(_KAFKA_PLACE))
    note = f"Kafka topic{'s' * (len(names) > 1)} {', '.join(names)}; rows in the order of timestamp, partition, offset"
    return Source(frame, tuple(_KAFKA_PLACE), note)


def _rate(spark: SparkSession, settings: Mapping[str, Any]) -> Source:
    reader = spark.readStream.format("rate").options(**text_options(settings))
    rows = settings.get("rows_per_second")
    frame = (reader if rows is None else reader.option("rowsPerSecond", int(rows))).load()
    return Source(frame.select("*", _no_problem()), ("value",), "Spark's rate source; rows in the order of value")


def _socket(spark: SparkSession, settings: Mapping[str, Any]) -> Source:
    host, port = str(needed(settings, "source.socket", "host")), int(needed(settings, "source.socket", "port"))
    form = str(needed(settings, "source.socket", "format"))
    schema = schema_of(needed(settings, "source.socket", "schema"))
    lines = spark.readStream.format("socket").option("host", host).option("port", port).load()
    note = f"socket {host}:{port}; rows as they come, and after a restart those that came meanwhile are lost"
    return Source(_of_lines(lines, form, schema, {}), (), note)


def _generate(spark: SparkSession, settings: Mapping[str, Any], rows_of: RowsOf | None) -> Source:
    if rows_of is None:
        raise QueryError("source.generate: nothing to generate rows with; give open_source rows_of=")
    kind, dims, seed = str(settings.get("kind", "ind")), int(settings.get("dims", 4)), int(settings.get("seed", 0))
    rows_of(kind, dims, seed, 0, 0)  # what the generator refuses is refused here and not on an executor
    spark.dataSource.register(source_of(rows_of))
    reader = spark.readStream.format(NAME).option("slices", spark.sparkContext.defaultParallelism)
    reader = reader.options(
        kind=kind, dims=dims, seed=seed, rows_per_batch=int(settings.get("rows_per_batch", 100_000))
    )
    frame = (reader.option("rows", int(settings["rows"])) if "rows" in settings else reader).load()
    count = f"{int(settings['rows']):,} rows" if "rows" in settings else "rows without end"
    note = f"{count} of {kind}, {dims} columns, seed {seed}; in the order of id"
    return Source(frame.select("*", _no_problem()), (), note)


_KINDS: dict[str, Opener] = {
    "files": _files,
    "kafka": _kafka,
    "rate": _rate,
    "socket": _socket,
}


def _of_lines(lines: DataFrame, form: str, schema: StructType, options: Mapping[str, str]) -> DataFrame:
    """Parse lines of text, leaving out empty ones and, of CSV, those that repeat the names of the columns."""
    others = [name for name in lines.columns if name != "value"]
    # Columns that stand in the folders' names (region=eu/) are not in the lines.
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
