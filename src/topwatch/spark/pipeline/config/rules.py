"""The rules between fields. They read the fields that are valid, so that all problems are reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

from topwatch.monitor import planner
from topwatch.query.errors import TopwatchError, nearest_name
from topwatch.query.queries import Query
from topwatch.spark.pipeline.config.column_types import in_nanoseconds, misfits, of_parquet
from topwatch.spark.pipeline.config.fields import OneOf, shown
from topwatch.spark.pipeline.config.jars import absent
from topwatch.spark.pipeline.config.model import Chunks, Pipeline, Window
from topwatch.spark.pipeline.config.query_models import QueryModel, query_model
from topwatch.spark.pipeline.config.sink_models import Sink
from topwatch.spark.pipeline.config.source_models import Files, Source
from topwatch.spark.pipeline.config.yaml_nodes import FieldPath

MOST_NAMES = 12  # columns that a message lists
LONGEST = 600  # characters of a message
LONGEST_KEY = 60
MOST_PROBLEMS = 100  # of a kind that takes long to find
NANOSECONDS = "spark.sql.legacy.parquet.nanosAsLong"  # where it is set, Spark reads them

# What a monitor is made of: with one of them wrong, it cannot be planned which algorithms serve the queries.
MONITOR_FIELDS = {"id", "time", "by", "lateness", "window", "every", "algorithm", "options", "emit"}


@dataclass(frozen=True)
class Problem:
    """What is wrong, and the path of keys and positions that leads there."""

    path: FieldPath
    text: str

    def __str__(self) -> str:
        text = f"{dotted(self.path)}: {self.text}" if self.path else self.text
        return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


@dataclass(frozen=True)
class Draft:
    """A pipeline of which parts may be wrong.

    Attributes
    ----------
    data : mapping
        The file's plain values.
    valid : dict
        The fields that were checked and are right.
    """

    data: Mapping[str, Any]
    valid: Mapping[str, Any]

    def given(self, field: str) -> bool:
        """Return whether the file has a field, right or wrong."""
        return self.data.get(field) is not None

    def get(self, field: str) -> Any:
        """Return the value of a field, its default when it is not there, or None when that is unknown."""
        return self.valid.get(field, None if self.given(field) else Pipeline.model_fields[field].get_default())

    @cached_property
    def queries(self) -> dict[int, QueryModel]:
        """The queries that are valid, by their index in the list."""
        if "queries" in self.valid:
            return dict(enumerate(self.valid["queries"]))
        listed = self.data.get("queries")
        result = {}
        for index, value in enumerate(listed if isinstance(listed, list) else []):
            try:
                result[index] = query_model(value)
            except ValueError:  # pydantic's are ValueErrors too; the reading has reported them already
                continue
        return result


def problems(draft: Draft) -> list[Problem]:
    """Find what does not go together."""
    rules = (needs_time, needs_id, needs_checkpoint, names_differ, columns_are_there, types_fit, options_fit)
    result = list(chain.from_iterable(rule(draft) for rule in rules))
    wrong = {problem.path[0] for problem in result} | {
        field for field in MONITOR_FIELDS if draft.given(field) and field not in draft.valid
    }
    return result if wrong & MONITOR_FIELDS or not draft.given("window") else [*result, *algorithms_serve(draft)]


def needs_time(draft: Draft) -> Iterator[Problem]:
    """Spans of event time need the time column."""
    window = draft.get("window")
    spans: list[tuple[FieldPath, Any]] = [
        (("window", "last"), window.last if isinstance(window, Window) else None),
        (("every",), draft.get("every")),
        (("lateness",), draft.get("lateness")),
    ]
    chunks = draft.get("chunks")
    if isinstance(chunks, Chunks):
        spans.append((("chunks", "every"), chunks.every))
        if not draft.given("lateness"):
            yield Problem(("chunks",), "a chunk ends when no row can come any more: say lateness, the wait for rows")
    for path, span in spans:
        if isinstance(span, str) and not draft.given("time"):
            yield Problem(path, f"{span!r} of event time needs the field time, the name of the time column")


def needs_id(draft: Draft) -> Iterator[Problem]:
    """The latest row of each id needs ids."""
    window = draft.get("window")
    if isinstance(window, Window) and window.last is None and not draft.given("id"):
        yield Problem(("window",), "latest needs the field id, the name of the id column")


def needs_checkpoint(draft: Draft) -> Iterator[Problem]:
    """A restart goes on from the checkpoint; without one, a lasting sink would get its rows twice."""
    sink = draft.get("sink")
    if isinstance(sink, Sink) and sink.lasting and not draft.given("checkpoint"):
        yield Problem(("checkpoint",), f"missing; expected a folder such as ckpt/, which the sink {sink.kind} needs")


def names_differ(draft: Draft) -> Iterator[Problem]:
    """Changes name their query."""
    listed = draft.data.get("queries")
    first: dict[str, int] = {}
    for index, value in enumerate(listed if isinstance(listed, list) else []):
        name = value.get("name") if isinstance(value, Mapping) else None
        if isinstance(name, str) and first.setdefault(name, index) != index:
            text = f"{name!r} is the name of queries[{first[name]}]; every query needs a name of its own"
            yield Problem(("queries", index, "name"), text)


def columns_are_there(draft: Draft) -> Iterator[Problem]:
    """Columns that are named must be in the schema, where the source has one."""
    source = draft.get("source")
    known = source.chosen.columns() if isinstance(source, Source) else None
    if known is None:
        return
    named: list[tuple[FieldPath, str]] = [((field,), draft.get(field)) for field in ("id", "time") if draft.get(field)]
    by = draft.get("by") or ()
    named += [(("by", index) if len(by) > 1 else ("by",), column) for index, column in enumerate(by)]
    chunks = draft.get("chunks")
    if isinstance(chunks, Chunks):
        named += [(("chunks", field), getattr(chunks, field)) for field in ("source", "value")]
    for index, query in draft.queries.items():
        named += [(("queries", index, *path), column) for path, column in query.columns()]
    there = set(known)
    missing = ((path, column) for path, column in named if column not in there)
    listed = ", ".join(known[:MOST_NAMES]) + (" ..." if len(known) > MOST_NAMES else "")
    for path, column in islice(missing, MOST_PROBLEMS):  # each is compared with all names that are there
        yield Problem(path, f"no column {column!r} in the source; it has {listed}{nearest_name(column, known)}")


def types_fit(draft: Draft) -> Iterator[Problem]:
    """Columns that are ranked must be numbers, and times must be times, where the schema is declared."""
    source = draft.get("source")
    yield from _misfits(draft, source.chosen.types() if isinstance(source, Source) else {})


def problems_here(draft: Draft, conf: Mapping[str, str]) -> Iterator[Problem]:
    """Find what a run on this machine, with these settings of Spark, is certain to fail of."""
    source, sink = draft.get("source"), draft.get("sink")
    settings = {**(draft.get("spark") or {}), **conf}
    if isinstance(source, Source) and isinstance(source.chosen, Files):
        types, path = of_parquet(source.chosen)
        yield from _misfits(draft, types, f" in {shown(path)}")
        refused = in_nanoseconds(source.chosen) if NANOSECONDS not in settings else None
        if refused is not None:
            column, path = refused
            text = "which Spark does not read; write them in microseconds (in pandas coerce_timestamps='us')"
            yield Problem(("source", "files"), f"column {column!r} has times in nanoseconds in {shown(path)}, {text}")
    reads, writes = (part.chosen if isinstance(part, OneOf) else None for part in (source, sink))
    for at, text in absent(reads, writes, settings):
        yield Problem(at, text)


def _misfits(draft: Draft, types: Mapping[str, str], where: str = "") -> Iterator[Problem]:
    chunks = draft.get("chunks")
    converted = chunks.value if isinstance(chunks, Chunks) else None
    listed = misfits(draft.queries, types, draft.get("time"), draft.given("lateness"), converted, where)
    yield from (Problem(path, text) for path, text in islice(listed, MOST_PROBLEMS))


def options_fit(draft: Draft) -> Iterator[Problem]:
    """Options must be ones that the algorithm has."""
    algorithm = draft.get("algorithm")
    for option, value in (draft.get("options") or {}).items() if algorithm else ():
        try:
            planner.check_algorithm(algorithm, {option: value})
        except TopwatchError as error:
            yield Problem(("options", option), str(error).removeprefix("option: ").removeprefix(f"{option}: "))


def algorithms_serve(draft: Draft) -> Iterator[Problem]:
    """Plan each query; where all can be served, a monitor of them is made and dropped: it may need too much memory."""
    given = {field: value for field, value in draft.valid.items() if field in MONITOR_FIELDS}
    pipeline = Pipeline.model_construct(**given)
    queries = {index: query.built for index, query in draft.queries.items()}
    for problem in names_differ(draft):  # which reports it
        index = int(problem.path[1])
        if index in queries:
            queries[index] = replace(queries[index], name=f"queries[{index}]")
    try:
        refused = list(islice(_refusals(pipeline, queries), MOST_PROBLEMS))
        yield from refused
        if not refused:
            pipeline.monitor(list(queries.values()))
    except TopwatchError as error:
        field, _, text = str(error).partition(": ")
        if field in pipeline.options:
            yield Problem(("options", field), text)
        else:
            yield Problem((field,), text) if field in MONITOR_FIELDS else Problem(("queries",), str(error))
    except (MemoryError, ValueError, OverflowError):
        text = f"the {pipeline.window}, queries and options need more memory than this machine has"
        yield Problem(("window",), text)


def _refusals(pipeline: Pipeline, queries: Mapping[int, Query]) -> Iterator[Problem]:
    """Find the queries that no algorithm can serve; what an option or ``emit`` has to do with it is reported once."""
    settings = pipeline.monitor([]).settings
    for index, query in queries.items():
        try:
            planner.choose(query, query.name or f"queries[{index}]", settings)
        except TopwatchError as error:
            field, _, text = str(error).partition(": ")
            if field in pipeline.options or field == "emit":
                yield Problem(("options", field) if field in pipeline.options else ("emit",), text)
                return
            yield Problem(("queries", index), str(error).removeprefix("algorithm: "))


def dotted(path: FieldPath) -> str:
    """Write a path as a person would.

    >>> dotted(("queries", 1, "score", "linear", "net.bytes"))
    "queries[1].score.linear['net.bytes']"
    """
    steps = [f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{step!r}]" for step in path]
    steps = [step if len(step) <= LONGEST_KEY else step[: LONGEST_KEY - 3] + "..." for step in steps]
    return "".join(steps).removeprefix(".")
