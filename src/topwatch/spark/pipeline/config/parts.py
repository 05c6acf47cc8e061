"""What the models of a pipeline share: errors in our words instead of pydantic's.

Every field's ``description`` says what is accepted; it completes the sentence "expected ..., got ...".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from topwatch.query.errors import QueryError, nearest_name

T = TypeVar("T")

LONGEST = 60  # characters of a value that a message repeats


def refuse(text: str, *at: str | int) -> PydanticCustomError:
    """Return the error to raise in a validator; ``at`` leads from the validated value to the part that is wrong."""
    return PydanticCustomError("refused", "{text}", {"text": text, "at": at})


def heard(check: Callable[[], T], prefix: str) -> T:
    """Let topwatch validate a value; its message begins with ``prefix``, which the path in the file replaces."""
    try:
        return check()
    except QueryError as error:
        raise refuse(str(error).removeprefix(prefix)) from None


def said(value: object) -> str:
    """Say what the file has, in a few words: never a whole mapping, which may be long or hold a secret.

    >>> said(None), said(True), said("ten"), said({"last": 5}), said([])
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
    bare: ClassVar[frozenset[str]] = frozenset()  # fields whose name alone says something, as in `console:`

    @classmethod
    @cache
    def names(cls) -> list[str]:
        """Return the fields as the file calls them."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    def settings(self) -> dict[str, Any]:
        """Return the fields as plain values, by the names the file has for them; None where one was left out."""
        return self.model_dump(by_alias=True)

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
        kind, index, value = line["type"], line["loc"], line["input"]
        if kind == "refused":
            error = refuse(line["ctx"]["text"], *line["ctx"]["at"])
        elif kind in ("extra_forbidden", "invalid_key"):
            error = refuse(f"unknown field; accepted are {', '.join(cls.names())}{cls._nearest(index[-1])}")
        elif not index:
            error = refuse(f"expected {cls.shape or 'a mapping of ' + ', '.join(cls.names())}, got {said(value)}")
        elif kind == "missing":
            error = refuse(f"missing; expected {cls._accepted(index[0])}")
        else:
            error = refuse(f"expected {cls._accepted(index[0])}, got {said(value)}")
        return InitErrorDetails(type=error, loc=index, input=value)

    @classmethod
    def _nearest(cls, name: str | int) -> str:
        return nearest_name(str(name), cls.names())

    @classmethod
    def _accepted(cls, name: str | int) -> str | None:
        return next(f.description for key, f in cls.model_fields.items() if name == (f.alias or key))


class OneOf(Part):
    """A mapping in which exactly one of some fields stands."""

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
        """What stands there."""
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
