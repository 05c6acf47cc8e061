"""Where changes or answers go. ``options`` pass through to Spark as they are."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from topwatch.spark.pipeline.config.fields import (
    SPARK_OPTIONS,
    Location,
    OneOf,
    Part,
    SparkOptions,
    Text,
    refuse,
    short_for,
    shown,
)
from topwatch.spark.pipeline.config.source_models import SERVERS, Servers

URL = "an address such as jdbc:postgresql://localhost/topwatch"


def _jdbc(url: str) -> str:
    if not url.startswith("jdbc:"):
        # The rest of it may hold a password.
        raise refuse(f"expected {URL}, got one that begins with {url.partition(':')[0]!r}")
    return url


class SinkPart(Part):
    """What all kinds of sink are."""


class Parquet(SinkPart):
    """A folder of parquet files."""

    shape: ClassVar[str] = "a folder such as out/, or a mapping of path, options"

    path: Location = Field(description="a folder such as out/")
    options: SparkOptions = Field({}, description=SPARK_OPTIONS)

    def __str__(self) -> str:
        return f"parquet {shown(self.path)}"


class Console(SinkPart):
    """The screen."""

    options: SparkOptions = Field({}, description=SPARK_OPTIONS)

    def __str__(self) -> str:
        return "the console"


class Memory(SinkPart):
    """A table in the driver's memory, for tests and notebooks."""

    shape: ClassVar[str] = "the name of a table, or a mapping of table"

    table: Text = Field("topwatch", description="the name of a table")

    def __str__(self) -> str:
        return f"memory table {self.table}"


class KafkaTopic(SinkPart):
    """A topic whose values are JSON."""

    servers: Servers = Field(description=SERVERS)
    topic: Text = Field(description="the name of a topic")
    options: SparkOptions = Field({}, description=SPARK_OPTIONS)

    def __str__(self) -> str:
        return f"Kafka topic {self.topic}"


class Jdbc(SinkPart):
    """A table of a database. The password is not in the file but in an environment variable."""

    url: Annotated[Text, AfterValidator(_jdbc)] = Field(description=URL)
    table: Text = Field(description="the name of a table")
    user: Text | None = Field(None, description="the name of a user")
    password_env: Text | None = Field(None, description="the name of an environment variable that has the password")
    options: SparkOptions = Field({}, description=SPARK_OPTIONS)

    def __str__(self) -> str:
        return f"JDBC table {self.table}"


class Sink(OneOf):
    """Exactly one sink. A new one is a class with ``str``, and a line here."""

    bare: ClassVar[frozenset[str]] = frozenset({"console", "memory"})
    shape: ClassVar[str] = "console, memory or a mapping with one of parquet, console, memory, kafka, jdbc"

    parquet: Annotated[Parquet | None, short_for("path")] = None
    console: Annotated[Console | None, short_for()] = None
    memory: Annotated[Memory | None, short_for("table")] = None
    kafka: KafkaTopic | None = None
    jdbc: Jdbc | None = None

    @property
    def lasting(self) -> bool:
        """True where rows outlive the run, so that a restart must know which of them it has written."""
        return self.kind not in ("console", "memory")


def _word(value: Any) -> Any:
    return {value: None} if isinstance(value, str) and value in Sink.bare else value


SinkOrWord = Annotated[Sink, BeforeValidator(_word)]
