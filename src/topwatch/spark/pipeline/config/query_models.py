"""The standing queries of a pipeline. A new kind is a class here and a line in ``KINDS``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo, model_validator

from topwatch.query import scores
from topwatch.query.errors import QueryError, nearest_name
from topwatch.query.queries import (
    Direction,
    Dominating,
    FrequentSkyline,
    IncompleteTopK,
    Nearest,
    Query,
    Skyline,
    Threshold,
    TopK,
)
from topwatch.spark.pipeline.config.fields import (
    COLUMN,
    COUNT,
    WEIGHTS,
    Count,
    Names,
    Number,
    OneOf,
    Part,
    Text,
    Weights,
    Where,
    described,
    refuse,
)

EXAMPLE = "{name: hot, top: 10, score: {linear: {bytes: 0.7, packets: 0.3}}}"
PREFER = "columns, each with min or max, such as {bytes: max, seconds: min}"
QUERIES = f"a list of queries such as {EXAMPLE}"

Named = tuple[tuple[str, ...], str]  # where a column is named, and its name


class ScoreModel(OneOf):
    """What "best" means."""

    beside: ClassVar[frozenset[str]] = frozenset({"increasing", "decreasing"})
    shape: ClassVar[str] = "a mapping with one of linear, product, quadratic, distance, expr"

    linear: Weights | None = Field(None, description=WEIGHTS)
    product: Weights | None = Field(None, description=WEIGHTS)
    quadratic: Weights | None = Field(None, description=WEIGHTS)
    distance: Weights | None = Field(None, description=WEIGHTS)
    expr: Text | None = Field(None, description="arithmetic over columns such as bytes / (1 + seconds)")
    increasing: Names = Field((), description=f"{COLUMN}, or a list of them")
    decreasing: Names = Field((), description=f"{COLUMN}, or a list of them")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.expr is None:
            for promise in self.beside & self.model_fields_set:
                raise refuse(f"goes with expr only; {self.kind} is known to rise or fall", promise)
        try:
            _ = self.built
        except QueryError as error:
            text = str(error).removeprefix("expr: ")
            at, _, rest = text.partition(" ")
            raise (refuse(rest, at) if at in self.beside else refuse(text, self.kind)) from None
        return self

    @cached_property
    def built(self) -> scores.Score:
        """The score as topwatch has it."""
        if self.expr is not None:
            return scores.expr(self.expr, self.increasing, self.decreasing)
        make = {f.__name__: f for f in (scores.linear, scores.product, scores.quadratic, scores.distance)}
        return make[self.kind](self.chosen)

    def columns(self) -> Iterator[Named]:
        """Yield each column with its path."""
        for column in self.built.columns:
            yield (self.kind,) if self.expr else (self.kind, column), column


class QueryModel(Part):
    """What all kinds have."""

    name: Text | None = Field(None, description="a name")
    where: Where = Field({}, description="columns and their ranges such as {port: [0, 1023]}")

    @property
    @abstractmethod
    def built(self) -> Query:
        """The query as topwatch has it."""

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        """Let topwatch validate the whole; its messages begin with the kind of query and the field."""
        try:
            _ = self.built
        except QueryError as error:
            _, _, text = str(error).partition(": ")
            at, _, rest = text.partition(": ")
            raise (refuse(rest, at) if at in type(self).model_fields else refuse(text)) from None
        return self

    def columns(self) -> Iterator[Named]:
        """Yield each column with its path."""
        for column in self.where:
            yield ("where", column), column


class ScoredModel(QueryModel):
    """What the kinds that rank by a score have."""

    score: ScoreModel = Field(description=ScoreModel.shape)

    def columns(self) -> Iterator[Named]:
        """Yield each column with its path."""
        for path, column in self.score.columns():
            yield ("score", *path), column
        yield from super().columns()


class TopKModel(ScoredModel):
    """``{top: 10, score: ...}``: the rows with the best score."""

    top: Count = Field(description=COUNT)

    @cached_property
    def built(self) -> TopK:
        """The query as topwatch has it."""
        return TopK(k=self.top, score=self.score.built, name=self.name, where=self.where)


class NearestModel(QueryModel):
    """``{nearest: 5, point: {lat: 45.1, lon: 7.2}}``: the rows nearest to a point."""

    nearest: Count = Field(description=COUNT)
    point: Weights = Field(description="columns and their numbers such as {lat: 45.1, lon: 7.2}")

    @cached_property
    def built(self) -> Nearest:
        """The query as topwatch has it."""
        return Nearest(k=self.nearest, point=self.point, name=self.name, where=self.where)

    def columns(self) -> Iterator[Named]:
        """Yield each column with its path."""
        for column in self.point:
            yield ("point", column), column
        yield from super().columns()


class ThresholdModel(ScoredModel):
    """``{threshold: 0.9, score: ...}``: every row with a better score."""

    threshold: Number = Field(description="a finite number")

    @cached_property
    def built(self) -> Threshold:
        """The query as topwatch has it."""
        return Threshold(score=self.score.built, above=self.threshold, name=self.name, where=self.where)


def _preferred(value: Any) -> Any:
    if not isinstance(value, Mapping) or not value:
        raise refuse(f"expected {PREFER}, got {described(value)}")
    for column, better in value.items():
        if better not in ("min", "max"):
            raise refuse(f"expected min or max, got {described(better)}", column)
    return dict(value)


Preferred = Annotated[dict[str, Direction], BeforeValidator(_preferred)]


class DominatingModel(QueryModel):
    """``{dominating: 10, prefer: {bytes: max, seconds: min}}``: the rows that dominate the most others."""

    dominating: Count = Field(description=COUNT)
    prefer: Preferred = Field(description=PREFER)

    @cached_property
    def built(self) -> Dominating:
        """The query as topwatch has it."""
        return Dominating(k=self.dominating, prefer=self.prefer, name=self.name, where=self.where)

    def columns(self) -> Iterator[Named]:
        """Yield each column with its path."""
        for column in self.prefer:
            yield ("prefer", column), column
        yield from super().columns()


class IncompleteTopKModel(QueryModel):
    """``{incomplete: 10, sources: [EWR, JFK], combine: sum}``: the objects with the best score over several sources."""

    incomplete: Count = Field(description=COUNT)
    sources: list[Any] = Field(description="a list of sources such as [EWR, JFK]")
    combine: Any = Field("sum", description="sum, max, mean or {expr: ..., increasing: [...]}")
    weights: dict[Any, Any] | None = Field(None, description="sources and their numbers such as {EWR: 2}")
    bounds: Any = Field(None, description="[low, high], one such for each source, or learn")
    most: Count | None = Field(None, description=COUNT)
    occurrences: Text = Field("single", description="single, sum or max")
    source: Text = Field("source", description=COLUMN)
    value: Text = Field("value", description=COLUMN)

    @cached_property
    def built(self) -> IncompleteTopK:
        """The query as topwatch has it."""
        parts = {part: getattr(self, part) for part in ("weights", "bounds", "occurrences", "source", "value", "most")}
        combine = _formula(self.combine) if isinstance(self.combine, Mapping) else self.combine
        return IncompleteTopK(self.incomplete, self.sources, combine, name=self.name, where=self.where, **parts)

    def columns(self) -> Iterator[Named]:
        """Yield each column with its path."""
        for field in ("source", "value"):
            yield (field,), getattr(self, field)
        yield from super().columns()


def _formula(combine: Mapping[str, Any]) -> scores.Score:
    if not {"expr"} <= set(combine) <= {"expr", "increasing"}:
        raise QueryError(f"combine: expected {{expr: ..., increasing: [...]}}, got {described(combine)}")
    rising = combine.get("increasing", ())
    try:
        return scores.expr(combine["expr"], [rising] if isinstance(rising, str) else rising)
    except QueryError as error:
        raise QueryError(f"combine: {error}") from None


class SkylineModel(QueryModel):
    """``{skyline: {bytes: max, seconds: min}}``: the rows that no other dominates.

    With ``share`` and ``snapshots``: the ids that are among them in that share of the last evaluations.
    """

    skyline: Preferred = Field(description=PREFER)
    share: Number | None = Field(None, description="a number above 0 and at most 1")
    snapshots: Count | None = Field(None, description=COUNT)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if (self.share is None) != (self.snapshots is None):
            given, other = ("share", "snapshots") if self.snapshots is None else ("snapshots", "share")
            raise refuse(f"goes with {other}, which is missing", given)
        return self

    @cached_property
    def built(self) -> Skyline | FrequentSkyline:
        """The query as topwatch has it."""
        if self.share is None or self.snapshots is None:
            return Skyline(prefer=self.skyline, name=self.name, where=self.where)
        return FrequentSkyline(self.skyline, self.share, self.snapshots, name=self.name, where=self.where)

    def columns(self) -> Iterator[Named]:
        """Yield each column with its path."""
        for column in self.skyline:
            yield ("skyline", column), column
        yield from super().columns()


KINDS: dict[str, type[QueryModel]] = {
    "top": TopKModel,
    "nearest": NearestModel,
    "threshold": ThresholdModel,
    "dominating": DominatingModel,
    "skyline": SkylineModel,
    "incomplete": IncompleteTopKModel,
}


def query_model(value: Any, info: ValidationInfo | None = None) -> QueryModel:
    """Read one query: the field that names its kind decides which fields it has."""
    accepted = f"accepted are {', '.join(KINDS)}"
    if not isinstance(value, Mapping):
        raise refuse(f"expected a query such as {EXAMPLE}, got {described(value)}")
    given = [name for name in KINDS if name in value]
    if len(given) > 1:
        raise refuse(f"a second kind beside {given[0]}; a query has one of {', '.join(KINDS)}", given[1])
    if not given:
        hints = (
            nearest_name(str(name), KINDS)
            for name in value
            if name not in ("name", "score", "where", "point", "prefer", "share", "snapshots", "sources", "combine")
        )
        raise refuse(f"names no kind of query; {accepted}{next(filter(None, hints), '')}")
    return KINDS[given[0]].model_validate(value, context=info.context if info else None)


def _several(value: Any) -> Any:
    if value == []:
        raise refuse(f"expected {QUERIES}, got an empty list")
    return tuple(value) if isinstance(value, list) else value


Queries = Annotated[tuple[Annotated[QueryModel, PlainValidator(query_model)], ...], BeforeValidator(_several)]
