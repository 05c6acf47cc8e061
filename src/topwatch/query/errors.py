"""The errors a user can meet: each message is one line that names the field, what it got and what it accepts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 1000  # characters of a message


class TopwatchError(Exception):
    """Base of all errors that topwatch raises on purpose. A message is one line, whatever it repeats of a value."""

    def __init__(self, *messages: object) -> None:
        super().__init__(*(_line(text) if isinstance(text, str) else text for text in messages))


def _line(text: str) -> str:
    text = " ".join(text.split()) if "\n" in text or "\r" in text else text
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


class QueryError(TopwatchError, ValueError):
    """A query, a window or an option that makes no sense."""


class DataError(TopwatchError, ValueError):
    """A batch that cannot be used: a missing or non-numeric column, a decreasing time."""


class PlanError(TopwatchError, ValueError):
    """An algorithm that cannot serve the query."""


class PipelineError(TopwatchError, ValueError):
    """A pipeline's file that cannot be used.

    Attributes
    ----------
    args : tuple of str
        The problems, each a line that names the file, the line in it and the field.
    """

    def __str__(self) -> str:
        return "\n".join(self.args)


for _error in (TopwatchError, QueryError, DataError, PlanError, PipelineError):
    _error.__module__ = "topwatch"  # where users import them from, and what tracebacks print


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name nearest to a misspelt one, or an empty string.

    >>> nearest_name("byts", ["bytes", "packets"])
    "; did you mean 'bytes'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def missing_column(path: str, column: str, have: Iterable[object], why: str = "") -> DataError:
    """Return the error about a column that is not there; ``why`` it is needed.

    >>> raise missing_column("batch", "byts", ["flow", "bytes"], "needed by query 'hot'")
    Traceback (most recent call last):
    ...
    topwatch.DataError: batch: column 'byts' (needed by query 'hot') is missing; columns are flow, bytes; did you ...
    """
    names = [str(name) for name in have]
    needed = f" ({why})" if why else ""
    listed = ", ".join(names) or "none"
    return DataError(f"{path}: column {column!r}{needed} is missing; columns are {listed}{nearest_name(column, names)}")
