"""What is asked of a monitor, checked before anything is made."""

from __future__ import annotations

import datetime
import itertools
import numbers
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from topwatch.query.errors import QueryError
from topwatch.query.queries import KINDS, Query
from topwatch.query.windows import MOST, LastRows, LastTime, Latest, Window, duration

if TYPE_CHECKING:
    from topwatch.core.schedule import EveryRows, EveryTime


def as_list(queries: Any) -> list[Query]:
    """Return queries as a list."""
    if isinstance(queries, str) or not isinstance(queries, Iterable):
        raise QueryError(f"queries: expected a query such as TopK(...) or a list of them, got {queries!r}")
    listed = list(queries)
    for query in listed:
        if not isinstance(query, KINDS):
            raise QueryError(f"queries: expected queries such as TopK(...), got {query!r}")
    return listed


def named(queries: Iterable[Query], taken: Container[str]) -> dict[str, Query]:
    """Return queries by their names; those without get one that is not taken."""
    known: dict[str, Query] = {}
    counts: dict[str, Iterator[int]] = {}
    for query in queries:
        name = query.name
        if name is None:
            kind = type(query).__name__.lower()
            fresh = (f"{kind}-{number}" for number in counts.setdefault(kind, itertools.count(1)))
            name = next(one for one in fresh if one not in known and one not in taken)
        elif name in known or name in taken:
            raise QueryError(f"name: two queries are called {name!r}; every query needs a name of its own")
        known[name] = query
    return known


def checked_window(window: Any, id: str | None, time: str | None) -> Window:
    """Return a window that the columns suffice for."""
    if not isinstance(window, LastRows | LastTime | Latest):
        raise QueryError(f"window: expected last(n), last('10 minutes') or latest(), got {window!r}")
    if isinstance(window, LastTime) and time is None:
        raise QueryError(f"window: {window} needs time=, the name of the time column")
    if isinstance(window, Latest) and id is None:
        raise QueryError("window: latest() needs id=, the name of the id column")
    return window


def checked_emit(emit: Any, window: Window) -> str:
    """Return what is emitted."""
    if emit not in ("changes", "first"):
        raise QueryError(f"emit: expected 'changes' or 'first', got {emit!r}")
    if emit == "first" and isinstance(window, Latest):
        raise QueryError("emit: 'first' needs a window of rows that are never replaced; latest() has only 'changes'")
    return str(emit)


def column_name(field: str, name: Any) -> str | None:
    """Return the name of a column, or None."""
    if name is not None and (not isinstance(name, str) or not name):
        raise QueryError(f"{field}: expected the name of a column or None, got {name!r}")
    return name


def checked_lateness(lateness: Any, window: Window, time: str | None) -> int | None:
    """Return for how many nanoseconds rows wait for others; None where they must come in order."""
    if lateness is None:
        return None
    if time is None:
        raise QueryError("lateness: rows are late by their times; give time=, the name of the time column")
    if isinstance(window, Latest):
        raise QueryError("lateness: latest() takes rows as they come; only last(...) windows wait for late ones")
    if not isinstance(lateness, str | datetime.timedelta):
        raise QueryError(f"lateness: expected a time such as '10 seconds', got {lateness!r}")
    return duration("lateness", lateness)


def schedule_of(every: Any, window: Window, time: str | None) -> EveryRows | EveryTime:
    """Return when to evaluate."""
    from topwatch.core.schedule import EveryRows, EveryTime

    if isinstance(every, str | datetime.timedelta):
        span = window.nanoseconds if isinstance(window, LastTime) else None
        schedule = EveryTime(duration("every", every), span)
        if time is None:
            raise QueryError(f"every: {every!r} is a time and needs time=, the name of the time column")
        return schedule
    if isinstance(every, bool) or not isinstance(every, numbers.Integral) or every < 1:
        raise QueryError(f"every: expected a number of rows of at least 1 or a time such as '1 minute', got {every!r}")
    if int(every) > MOST:
        raise QueryError(f"every: expected at most {MOST:,} rows, got {every!r}")
    return EveryRows(int(every))
