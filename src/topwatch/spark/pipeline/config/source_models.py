"""Where rows come from. ``options`` pass through to Spark as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from topwatch.datagen.generators import FLOW_COLUMNS, KINDS
from topwatch.spark.pipeline.config.fields import (
    COUNT,
    SPARK_OPTIONS,
    Count,
    Location,
    Names,
    OneOf,
    Part,
    SparkOptions,
    Text,
    refuse,
    short_for,
    shown,
)

DDL = "a schema such as 'flow STRING, ts TIMESTAMP, bytes DOUBLE'"

_QUOTED = re.compile(r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))(?:\s*:\s*|\s+)(\w+).*", re.DOTALL)
SERVERS = "host:port, or a list of them"

_SUFFIX = re.compile(r"\.(csv|json|parquet|jsonl|ndjson)(?:\.(?:gz|bz2|zst|lz4|snappy))?$", re.IGNORECASE)
_LINES = {"jsonl": "json", "ndjson": "json"}


def columns_of(ddl: str) -> tuple[str, ...]:
    """Return the names of the top-level columns.

    >>> columns_of(
    ...     "flow STRING COMMENT 'a, b', `net bytes` DECIMAL(10, 2) NOT NULL, at: STRUCT<lat: DOUBLE, lon: DOUBLE>"
    ... )
    ('flow', 'net bytes', 'at')
    """
    return tuple(types_of(ddl))


def types_of(ddl: str) -> dict[str, str]:
    """Return the names of the top-level columns, each with the first word of its type.

    >>> types_of("flow STRING, bytes DECIMAL(10, 2), at: STRUCT<lat: DOUBLE, lon: DOUBLE>")
    {'flow': 'string', 'bytes': 'decimal', 'at': 'struct'}
    """
    types: dict[str, str] = {}
    for part in _parts(ddl):
        match = _COLUMN.fullmatch(part)
        if match is None:
            raise refuse(f"expected {DDL}, got {part.strip()!r} where a name and a type should stand")
        name = match[2] or match[1].replace("``", "`")
        if name in types:
            raise refuse(f"names the column {name!r} twice")
        types[name] = match[3].lower()
    return types


def _parts(ddl: str) -> Iterator[str]:
    depth, start = 0, 0
    plain = _QUOTED.sub(lambda match: "_" * len(match[0]), ddl)
    for index, character in enumerate(plain):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            yield ddl[start:index]
            start = index + 1
    left = "quote" if set("`'\"") & set(plain) else "bracket" if depth else ""
    if left:
        raise refuse(f"expected {DDL}, got a {left} without its pair in {ddl!r}")
    yield ddl[start:]


def _checked(ddl: str) -> str:
    columns_of(ddl)
    return ddl


Ddl = Annotated[str, Field(min_length=1), AfterValidator(_checked)]


Servers = Annotated[
    str, BeforeValidator(lambda value: ",".join(value) if _texts(value) else value), Field(min_length=1)
]


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


class SourcePart(Part):
    """What all kinds of source have."""

    interleaved: ClassVar[bool] = False  # whether rows of other partitions may lie between those of one

    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns, or None where only the files know them."""
        return None

    def types(self) -> dict[str, str]:
        """Return the first words of the columns' types, as far as the file declares them."""
        ddl: str | None = getattr(self, "ddl", None)
        return {} if ddl is None else types_of(ddl)


class Files(SourcePart):
    """Files that are there, and those that come."""

    shape: ClassVar[str] = "a path such as data/*.parquet, or a mapping of path, format, schema, max_files, options"

    path: Location = Field(description="a path such as data/*.parquet")
    format: Literal["csv", "json", "parquet"] = Field(
        description="csv, json or parquet (needed where the path does not end in one of them)"
    )
    ddl: Ddl | None = Field(None, alias="schema", description=DDL)
    max_files: Count | None = Field(None, description=COUNT)
    options: SparkOptions = Field({}, description=SPARK_OPTIONS)

    @model_validator(mode="before")
    @classmethod
    def _format_from_suffix(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and "format" not in data and isinstance(data.get("path"), str):
            suffix = _SUFFIX.search(data["path"])
            if suffix:
                name = suffix[1].lower()
                return {**data, "format": _LINES.get(name, name)}
        return data

    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns, or None where only the files know them."""
        return None if self.ddl is None else columns_of(self.ddl)

    def __str__(self) -> str:
        return shown(self.path)


class Kafka(SourcePart):
    """One or more topics whose values are JSON."""

    interleaved: ClassVar[bool] = True

    servers: Servers = Field(description=SERVERS)
    topic: Text | None = Field(None, description="the name of a topic")
    topics: Names | None = Field(None, description="a list of topics")
    format: Literal["json"] = Field("json", description="json")
    ddl: Ddl = Field(alias="schema", description=DDL)
    options: SparkOptions = Field({}, description=SPARK_OPTIONS)

    @model_validator(mode="after")
    def _topic_or_topics(self) -> Self:
        if (self.topic is None) == (self.topics is None):
            got = "none of them" if self.topic is None else "both"
            raise refuse(f"expected either topic or topics, got {got}", *(("topics",) if self.topics else ()))
        return self

    @property
    def subscribed(self) -> tuple[str, ...]:
        """The topics, be they one or many."""
        return self.topics or (self.topic or "",)

    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns."""
        return columns_of(self.ddl)

    def __str__(self) -> str:
        return f"Kafka topic{'s' if len(self.subscribed) > 1 else ''} {', '.join(self.subscribed)}"


class Rate(SourcePart):
    """Spark's own rows of a time and a number, for trying things out."""

    interleaved: ClassVar[bool] = True

    rows_per_second: Count = Field(1, description=COUNT)
    options: SparkOptions = Field({}, description=SPARK_OPTIONS)

    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns."""
        return "timestamp", "value"

    def types(self) -> dict[str, str]:
        """Return the types of the columns."""
        return {"timestamp": "timestamp", "value": "bigint"}

    def __str__(self) -> str:
        return f"rate, {self.rows_per_second:,} a second"


class Generate(SourcePart):
    """Generated rows, the same as ``topwatch generate`` writes: an id and columns x1 .. xd in [0, 1], or flows."""

    kind: Literal["ind", "ant", "cor", "clustered", "flows"] = Field(
        "ind", description="ind, ant, cor, clustered or flows"
    )
    dims: Count = Field(4, description=COUNT)
    rows: Count | None = Field(None, description=COUNT)
    rows_per_batch: Count = Field(100_000, description=COUNT)
    seed: Annotated[int, Field(ge=0)] = Field(0, description="a whole number of at least 0")

    @model_validator(mode="after")
    def _dims_of_kind(self) -> Self:
        if self.kind == "flows":
            if "dims" in self.model_fields_set:
                raise refuse("not known for flows, which have columns of their own", "dims")
            return self
        _, _, fewest, most = KINDS[self.kind]
        if not fewest <= self.dims <= most:
            raise refuse(f"expected {fewest} to {most:,} columns for {self.kind}, got {self.dims}", "dims")
        return self

    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns."""
        if self.kind == "flows":
            return FLOW_COLUMNS
        return "id", *(f"x{i}" for i in range(1, self.dims + 1))

    def __str__(self) -> str:
        count = "" if self.rows is None else f"{self.rows:,} "
        columns = "" if self.kind == "flows" else f"{self.dims} columns, "
        return f"{count}generated rows ({self.kind}, {columns}seed {self.seed})"


class Socket(SourcePart):
    """Lines of text from a socket, for trying things out: what was read is not there again after a restart."""

    host: Text = Field(description="the name or address of a host")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(description="a number from 1 to 65535")
    format: Literal["json", "csv"] = Field(description="json or csv")
    ddl: Ddl = Field(alias="schema", description=DDL)

    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns."""
        return columns_of(self.ddl)

    def __str__(self) -> str:
        return f"socket {self.host}:{self.port}"


class Source(OneOf):
    """Exactly one source. A new one is a class with ``columns`` and ``str``, and a line here."""

    bare: ClassVar[frozenset[str]] = frozenset({"rate", "generate"})
    shape: ClassVar[str] = "a mapping with one of files, kafka, rate, generate, socket"

    files: Annotated[Files | None, short_for("path")] = None
    kafka: Kafka | None = None
    rate: Annotated[Rate | None, short_for()] = None
    generate: Annotated[Generate | None, short_for("kind")] = None
    socket: Socket | None = None
