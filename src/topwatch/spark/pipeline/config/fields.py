"""The kinds of value that fields have. Where topwatch itself can validate a value, it does."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo

from topwatch.query.queries import Range, TopK
from topwatch.query.scores import finite_number, linear
from topwatch.query.windows import duration
from topwatch.spark.pipeline.config.parts import heard, refuse, said

COUNT = "a whole number of at least 1"
SPAN = "a time such as '10 minutes'"
COLUMN = "the name of a column"
WEIGHTS = "columns and their numbers such as {bytes: 0.7, packets: 0.3}"
SETTINGS = "a mapping of names to text, numbers, true or false"

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PROBE = TopK(k=1, score=linear({"x": 1.0}))


def _number(value: Any) -> float:
    return heard(lambda: finite_number("number", value), "number: ")


def _range(value: Any) -> Range:
    return heard(lambda: replace(_PROBE, where={"x": value}).where["x"], "TopK: where['x']: ")


def _span(text: str) -> str:
    heard(lambda: duration("time", text), "time: ")
    return text


def _every(value: Any) -> int | str:
    if isinstance(value, str):
        return _span(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise refuse(f"expected a number of rows of at least 1 or a time such as '1 minute', got {said(value)}")
    return value


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise refuse(f"expected text, a number, true or false, got {said(value)}")


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
Span = Annotated[Text, AfterValidator(_span)]
Every = Annotated[int | str, PlainValidator(_every)]
Settings = dict[Text, Annotated[str, PlainValidator(_setting)]]
Names = Annotated[tuple[Text, ...], AfterValidator(_once), BeforeValidator(_several)]
Location = Annotated[Text, AfterValidator(_resolved)]
