"""The model of a pipeline file: what a user wrote, checked field by field and frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from topwatch.monitor.monitor import Monitor
from topwatch.monitor.planner import PhysicalPlan, check_algorithm
from topwatch.query import windows
from topwatch.query.errors import TopwatchError
from topwatch.query.queries import Query
from topwatch.spark.pipeline.config.fields import (
    COLUMN,
    SPAN,
    SPARK_OPTIONS,
    Every,
    Location,
    Microseconds,
    Milliseconds,
    Names,
    Part,
    SparkOptions,
    Text,
    described,
    refuse,
    validated,
)
from topwatch.spark.pipeline.config.query_models import QUERIES, Queries
from topwatch.spark.pipeline.config.sink_models import Sink, SinkOrWord
from topwatch.spark.pipeline.config.source_models import Source
from topwatch.spark.planner import monitor_of, stream_plan


def _extent(value: Any) -> int | str:
    validated(lambda: windows.last(value), "window: last: ")
    extent: int | str = value
    return extent


class Window(Part):
    """``{last: 100000}``, ``{last: 10 minutes}`` or, without ``last``, the latest row of each id."""

    shape: ClassVar[str] = "{last: 100000}, {last: 10 minutes} or latest"

    last: Annotated[int | str | None, PlainValidator(_extent)] = Field(
        None, description="a number of rows or a time such as '10 minutes'"
    )

    def build(self) -> windows.Window:
        """Make topwatch's window."""
        return windows.latest() if self.last is None else windows.last(self.last)

    def __str__(self) -> str:
        return f"last {self.last}" if isinstance(self.last, str) else str(self.build())


def _window(value: Any) -> Any:
    if value == "latest":
        return {}
    if isinstance(value, Mapping) and value.get("last") is None and (not value or "latest" in value or "last" in value):
        raise refuse(f"expected {Window.shape}, got {described(value)}")
    return value


class Chunks(Part):
    """``{every: 5 seconds}``: the values of a source for an object within an interval become one row."""

    shape: ClassVar[str] = "{every: 5 seconds}, and combine: sum or max"

    every: Microseconds = Field(description=SPAN)
    combine: Literal["sum", "max"] = Field("sum", description="sum or max")
    source: Text = Field("source", description=COLUMN)
    value: Text = Field("value", description=COLUMN)


def _folder(value: Any) -> Any:
    return value["parquet"] if isinstance(value, Mapping) and list(value) == ["parquet"] else value


def _algorithm(name: str) -> str:
    try:
        check_algorithm(name, {})
    except TopwatchError as error:
        raise refuse(str(error).removeprefix("algorithm: ")) from None
    return name


class Pipeline(Part):
    """A source, the standing queries over it and a sink.

    Attributes
    ----------
    source : Source
        ``source.kind`` is ``"files"``, ``"kafka"``, ``"rate"``, ``"generate"`` or ``"socket"``; ``source.chosen`` is
        the part with its fields.
    id, time : str
        Names of columns; ``time`` is None where there is none.
    by : tuple of str
        Each value of these columns has its own window and answers.
    chunks : Chunks or None
        Rows become chunks of so much time before queries see them.
    lateness, trigger : str or None
        Times as they were written; :func:`topwatch.query.windows.duration` reads them.
    window : Window
        ``window.build()`` is topwatch's window.
    every : int or str
        When to evaluate.
    algorithm, options : str, dict
        As :class:`topwatch.Monitor` takes them.
    emit : str
        ``"changes"``, ``"answers"`` or ``"first"``.
    queries : tuple of QueryModel
        ``query.built`` is topwatch's query.
    sink : Sink
        As ``source``: one of parquet, console, memory, kafka, jdbc.
    checkpoint : str or None
        A folder. All paths are absolute, or have a scheme such as ``s3a:``.
    quarantine : str or None
        A folder of parquet files for rows that cannot be used.
    spark : dict
        SparkOptions of Spark.
    """

    source: Source = Field(description=Source.shape)
    id: Text = Field("id", description=COLUMN)
    time: Text | None = Field(None, description=COLUMN)
    by: Names = Field((), description=f"{COLUMN}, or a list of them")
    lateness: Milliseconds | None = Field(None, description=SPAN)
    chunks: Chunks | None = Field(None, description=Chunks.shape)
    window: Annotated[Window, BeforeValidator(_window)] = Field(description=Window.shape)
    every: Every = Field(1, description="a number of rows or a time")
    algorithm: Annotated[Text, PlainValidator(_algorithm)] = Field("auto", description="the name of an algorithm")
    options: dict[Text, Any] = Field({}, description="options of the algorithm such as {cells: 12}")
    emit: Literal["changes", "answers", "first"] = Field("changes", description="changes, answers or first")
    queries: Queries = Field(description=QUERIES)
    sink: SinkOrWord = Field(description=Sink.shape)
    checkpoint: Location | None = Field(None, description="a folder such as ckpt/")
    quarantine: Annotated[Location | None, BeforeValidator(_folder)] = Field(None, description="a folder such as bad/")
    trigger: Milliseconds | None = Field(None, description=SPAN)
    spark: SparkOptions = Field({}, description=SPARK_OPTIONS)

    def standing_queries(self) -> list[Query]:
        """Return topwatch's queries, in the order of the file."""
        return [query.built for query in self.queries]

    @property
    def segments(self) -> str | None:
        """The folder for segments of windows, where there is a checkpoint."""
        return f"{self.checkpoint.rstrip('/')}/segments" if self.checkpoint is not None else None

    def plan(self) -> PhysicalPlan:
        """Return the plan that a run will execute; times are taken to be timestamps."""
        interleaved = self.chunks is not None or self.source.chosen.interleaved
        return stream_plan(self.monitor(), interleaved, self.segments)

    def monitor(self, queries: list[Query] | None = None) -> Monitor:
        """Make the monitor of the queries, or of others instead; what a run would refuse is refused."""
        return monitor_of(
            self.standing_queries() if queries is None else queries,
            self.emit,
            window=self.window.build(),
            every=self.every,
            algorithm=self.algorithm,
            options=self.options,
            id=self.id,
            time=self.time,
            by=self.by or None,
            only_rows=self.time is not None,
            watermark=self.lateness is not None,
        )

    @field_validator("*", mode="wrap")
    @classmethod
    def _keep(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """Record the fields that are valid, so that the rules between them can be checked although others are not."""
        checked = handler(value)
        if info.context and "valid" in info.context:
            info.context["valid"][info.field_name] = checked
        return checked
