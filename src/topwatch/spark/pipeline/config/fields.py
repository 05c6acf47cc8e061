"""What the models of a pipeline are made of: parts of the file, kinds of values, and errors in our words.

Where topwatch itself can validate a value, it does. Every field's ``description`` is what is accepted; it completes
the sentence "expected ..., got ...".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from topwatch.query.errors import QueryError, nearest_name
from topwatch.query.queries import TopK
from topwatch.query.ranking import Range
from topwatch.query.scores import finite_number, linear
from topwatch.query.windows import duration
from topwatch.spark.source_frames import spark_interval

T = TypeVar("T")

LONGEST = 60  # characters of a value that a message repeats

COUNT = "a whole number of at least 1"
SPAN = "a time such as '10 minutes'"
COLUMN = "the name of a column"
WEIGHTS = "columns and their numbers such as {bytes: 0.7, packets: 0.3}"
SPARK_OPTIONS = "a mapping of names to text, numbers, true or false"

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PROBE = TopK(k=1, score=linear({"x": 1.0}))


def refuse(text: str, *at: str | int) -> PydanticCustomError:
    """Return the error to raise in a validator; ``at`` leads from the validated value to the part that is wrong."""
    return PydanticCustomError("refused", "{text}", {"text": text, "at": at})


def validated(check: Callable[[], T], prefix: str) -> T:
    """Let topwatch validate a value; its message begins with ``prefix``, which the path in the file replaces."""
    try:
        return check()
    except QueryError as error:
        raise refuse(str(error).removeprefix(prefix)) from None


def described(value: object) -> str:
    """Describe a value of the file in a few words: never a whole mapping, which may be long or hold a secret.

    >>> described(None), described(True), described("ten"), described({"last": 5}), described([])
    ('nothing', 'true', "'ten'", 'a mapping', 'an empty list')
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list | tuple):
        kind = "mapping" if isinstance(value, Mapping) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


class Part(BaseModel):
    """A mapping of the file: frozen, and with no fields but its own. A field that is null counts as left out."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    shape: ClassVar[str] = ""  # what is accepted in place of the mapping, where that is more than a mapping
    bare: ClassVar[frozenset[str]] = frozenset()  # fields that may have no value, as in `console:`

    @classmethod
    @cache
    def names(cls) -> list[str]:
        """Return the fields as the file calls them."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, Mapping):
            kept = {*cls.bare, *(data.keys() - set(cls.names()))}
            data = {name: value for name, value in data.items() if value is not None or name in kept}
        try:
            return handler(data)
        except ValidationError as error:
            lines = [cls._reworded(line) for line in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(cls.__name__, lines) from None

    @classmethod
    def _reworded(cls, line: ErrorDetails) -> InitErrorDetails:
        kind, path, value = line["type"], line["loc"], line["input"]
        if kind == "refused":
            error = refuse(line["ctx"]["text"], *line["ctx"]["at"])
        elif kind in ("extra_forbidden", "invalid_key"):
            error = refuse(f"unknown field; accepted are {', '.join(cls.names())}{cls._nearest(path[-1])}")
        elif not path:
            error = refuse(f"expected {cls.shape or 'a mapping of ' + ', '.join(cls.names())}, got {described(value)}")
        elif kind == "missing":
            error = refuse(f"missing; expected {cls._accepted(path[0])}")
        else:
            error = refuse(f"expected {cls._accepted(path[0])}, got {described(value)}")
        return InitErrorDetails(type=error, loc=path, input=value)

    @classmethod
    def _nearest(cls, name: str | int) -> str:
        return nearest_name(str(name), cls.names())

    @classmethod
    def _accepted(cls, name: str | int) -> str | None:
        return next(f.description for key, f in cls.model_fields.items() if name == (f.alias or key))


class OneOf(Part):
    """A mapping with exactly one of some fields."""

    beside: ClassVar[frozenset[str]] = frozenset()  # fields that are not among the alternatives

    @classmethod
    @cache
    def choices(cls) -> list[str]:
        """Return the alternatives."""
        return [name for name in cls.model_fields if name not in cls.beside]

    @property
    def kind(self) -> str:
        """The alternative that was chosen."""
        return next(name for name in self.choices() if name in self.model_fields_set)

    @property
    def chosen(self) -> Any:
        """The value of that alternative."""
        return getattr(self, self.kind)

    @model_validator(mode="wrap")
    @classmethod
    def _exactly_one(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        there = data.keys() if isinstance(data, Mapping) else ()
        given = [name for name in cls.choices() if name in there and (data[name] is not None or name in cls.bare)]
        got = " and ".join(given) or "none of them"
        error = refuse(f"expected exactly one of {', '.join(cls.choices())}, got {got}", *given[1:2])
        try:
            made = handler(data)
        except ValidationError as wrong:
            # With none given, what is wrong is most likely that very field, misspelt.
            lines = [cls._reworded(line) for line in wrong.errors(include_url=False)]
            lines += [InitErrorDetails(type=error, loc=(), input=data)] if len(given) > 1 else []
            raise ValidationError.from_exception_data(cls.__name__, lines) from None
        if len(given) != 1:
            raise error
        return made


def _number(value: Any) -> float:
    return validated(lambda: finite_number("number", value), "number: ")


def _range(value: Any) -> Range:
    return validated(lambda: replace(_PROBE, where={"x": value}).where["x"], "TopK: where['x']: ")


def _span(text: str) -> str:
    validated(lambda: duration("time", text), "time: ")
    return text


def _interval(unit: Literal["microsecond", "millisecond"]) -> AfterValidator:
    def check(text: str) -> str:
        validated(lambda: spark_interval("time", text, unit), "time: ")
        return text

    return AfterValidator(check)


def _every(value: Any) -> int | str:
    if isinstance(value, str):
        return _span(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise refuse(f"expected a number of rows of at least 1 or a time such as '1 minute', got {described(value)}")
    return value


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise refuse(f"expected text, a number, true or false, got {described(value)}")


def _several(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise refuse("expected at least one name, got an empty list")
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise refuse(f"names {name!r} twice", index)
        seen.add(name)
    return names


def _resolved(text: str, info: ValidationInfo) -> str:
    if _ADDRESS.match(text):
        return text
    folder = (info.context or {}).get("folder", os.getcwd())
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(text)))
    return path + "/" if text.endswith("/") else path


def short_for(field: str | None = None) -> BeforeValidator:
    """Accept plain text as short for a mapping with this one field, and the bare name of a part as all its defaults."""

    def expand(value: Any) -> Any:
        if value is None:
            return {}
        return {field: value} if field and isinstance(value, str) else value

    return BeforeValidator(expand)


def shown(path: str) -> str:
    """Return a path as seen from the current folder.

    >>> shown(os.path.join(os.getcwd(), "out/")), shown("s3a://lake/out/")
    ('out/', 's3a://lake/out/')
    """
    return path.removeprefix(os.path.join(os.getcwd(), ""))


Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Number = Annotated[float, PlainValidator(_number)]
Weights = Annotated[dict[Text, Number], Field(min_length=1)]
Where = dict[Text, Annotated[Range, PlainValidator(_range)]]
Microseconds = Annotated[Text, _interval("microsecond")]  # a time that Spark counts in these
Milliseconds = Annotated[Text, _interval("millisecond")]
Every = Annotated[int | str, PlainValidator(_every)]
SparkOptions = dict[Text, Annotated[str, PlainValidator(_setting)]]
Names = Annotated[tuple[Text, ...], AfterValidator(_once), BeforeValidator(_several)]
Location = Annotated[Text, AfterValidator(_resolved)]
