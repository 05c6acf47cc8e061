"""What a monitor is made with, its queries left out: checked, frozen, and as plain data for a snapshot."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from topwatch.algorithms.registry import rougher
from topwatch.core.saved_state import Fields
from topwatch.monitor import planner
from topwatch.monitor.load_shedding import check_max_lag
from topwatch.query.errors import QueryError
from topwatch.query.windows import MOST, LastRows, LastTime, Latest, Window, duration

if TYPE_CHECKING:
    from topwatch.core.schedule import EveryRows, EveryTime

ENDLESS = 2**62 - 1  # nanoseconds: rows are buffered until they are released


@dataclass(frozen=True)
class Settings:
    """What a monitor is made with, its queries left out. Making it checks everything.

    Attributes
    ----------
    window, every, algorithm, options, id, time, emit, lateness, max_lag
        The arguments of :class:`~topwatch.monitor.monitor.Monitor`.
    by : tuple of str
        Columns whose values have windows of their own; given as a name, a list of names or None.
    only_rows : bool
        Times are timestamps, and nothing but a row advances event time.
    watermark : bool
        Rows are buffered until they are released.
    order : sequence of str
        Columns that order buffered rows of equal times.
    """

    window: Window
    every: int | str | datetime.timedelta = 1
    algorithm: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    time: str | None = None
    by: Any = None
    emit: str = "changes"
    lateness: str | datetime.timedelta | None = None
    max_lag: str | datetime.timedelta | None = None
    only_rows: bool = False
    watermark: bool = False
    order: Sequence[str] = ()

    def __post_init__(self) -> None:
        planner.check_algorithm(self.algorithm, self.options, rougher() if self.max_lag is not None else ())
        if self.max_lag is not None:
            check_max_lag(self.max_lag, self.algorithm, self.time)
        self._check_window()
        object.__setattr__(self, "by", _columns_of("by", self.by))
        object.__setattr__(self, "order", tuple(self.order))
        if self.by and self.max_lag is not None:
            raise QueryError("max_lag: it is measured for one window; a monitor with by= has many")
        self._check_emit()
        planner.check_buffer(self.window, self.options)
        self._check_lateness()
        for name, column in (("id", self.id), ("time", self.time)):
            if column is not None and not _is_name(column):
                raise QueryError(f"{name}: expected the name of a column or None, got {column!r}")
        self.schedule()

    def _check_window(self) -> None:
        window = self.window
        if not isinstance(window, LastRows | LastTime | Latest):
            raise QueryError(f"window: expected last(n), last('10 minutes') or latest(), got {window!r}")
        if isinstance(window, LastTime) and self.time is None:
            raise QueryError(f"window: {window} needs time=, the name of the time column")
        if isinstance(window, Latest) and self.id is None:
            raise QueryError("window: latest() needs id=, the name of the id column")

    def _check_emit(self) -> None:
        if self.emit not in ("changes", "first"):
            raise QueryError(f"emit: expected 'changes' or 'first', got {self.emit!r}")
        if self.emit == "first" and isinstance(self.window, Latest):
            raise QueryError(
                "emit: 'first' needs a window of rows that are never replaced; latest() has only 'changes'"
            )

    def _check_lateness(self) -> None:
        if self.watermark and self.time is None:
            raise QueryError("watermark: rows are buffered by their times; give time=, the name of the time column")
        if self.watermark or self.lateness is None:
            return
        if self.time is None:
            raise QueryError("lateness: rows are late by their times; give time=, the name of the time column")
        if isinstance(self.window, Latest):
            raise QueryError("lateness: latest() takes rows as they come; only last(...) windows wait for late ones")
        if not isinstance(self.lateness, str | datetime.timedelta):
            raise QueryError(f"lateness: expected a time such as '10 seconds', got {self.lateness!r}")
        duration("lateness", self.lateness)

    @property
    def buffered(self) -> int | None:
        """For how many nanoseconds rows are buffered; None where they must come in order."""
        if self.watermark:
            return ENDLESS
        return None if self.lateness is None else duration("lateness", self.lateness)

    @property
    def finest(self) -> int | None:
        """The shortest span of time that matters, in nanoseconds; None where none does."""
        spans = [self.window.nanoseconds] if isinstance(self.window, LastTime) else []
        if isinstance(self.every, str | datetime.timedelta):
            spans.append(duration("every", self.every))
        return min(spans, default=None)

    def schedule(self) -> EveryRows | EveryTime:
        """Make the schedule that says when to evaluate."""
        from topwatch.core.schedule import EveryRows, EveryTime

        every = self.every
        if isinstance(every, str | datetime.timedelta):
            span = self.window.nanoseconds if isinstance(self.window, LastTime) else None
            schedule = EveryTime(duration("every", every), span)
            if self.time is None:
                raise QueryError(f"every: {every!r} is a time and needs time=, the name of the time column")
            return schedule
        if isinstance(every, bool) or not isinstance(every, numbers.Integral) or every < 1:
            raise QueryError(
                f"every: expected a number of rows of at least 1 or a time such as '1 minute', got {every!r}"
            )
        if int(every) > MOST:
            raise QueryError(f"every: expected at most {MOST:,} rows, got {every!r}")
        return EveryRows(int(every))

    def save(self) -> dict[str, Any]:
        """Return the settings as plain data; how long rows are buffered is saved with the buffer."""
        return {
            "max_lag": None if self.max_lag is None else duration("max_lag", self.max_lag),
            "window": describe_window(self.window),
            "every": _describe_every(self.every),
            "algorithm": self.algorithm,
            "emit": self.emit,
            "options": dict(self.options),
            "id": self.id,
            "time": self.time,
            "by": list(self.by),
            "only_rows": self.only_rows,
            "watermark": self.watermark,
            "order": list(self.order),
        }

    @classmethod
    def load(cls, header: Fields) -> Settings:
        """Undo :meth:`save`; the options are checked with the algorithm."""
        options = header.raw("options")
        plain = isinstance(options, dict) and all(isinstance(value, int | float | str) for value in options.values())
        header.expect(plain, "options", "names with a number or a word each", options)
        lag = None if header.missing("max_lag") else header.whole("max_lag", 1, MOST)
        return cls(
            window=_read_window(header.fields("window")),
            every=_read_every(header.fields("every")),
            algorithm=header.text("algorithm"),
            options=options,
            id=header.raw("id"),
            time=header.raw("time"),
            by=header.texts("by") or None,
            emit=header.raw("emit"),
            max_lag=f"{lag} ns" if lag is not None else None,
            only_rows=header.flag("only_rows"),
            watermark=header.flag("watermark"),
            order=header.texts("order"),
        )


def describe_window(window: Window) -> dict[str, int]:
    """Return a window as plain data."""
    if isinstance(window, LastRows):
        return {"rows": window.rows}
    return {"nanoseconds": window.nanoseconds} if isinstance(window, LastTime) else {}


def _read_window(data: Fields) -> Window:
    if data.has("rows"):
        window: Window = LastRows(data.whole("rows", 1, MOST))
    else:
        window = LastTime(data.whole("nanoseconds", 1, MOST)) if data.has("nanoseconds") else Latest()
    data.done()
    return window


def _describe_every(every: int | str | datetime.timedelta) -> dict[str, int]:
    if isinstance(every, str | datetime.timedelta):
        return {"nanoseconds": duration("every", every)}
    return {"rows": int(every)}


def _read_every(data: Fields) -> int | str:
    every: int | str
    every = data.whole("rows", 1, MOST) if data.has("rows") else f"{data.whole('nanoseconds', 1, MOST)} ns"
    data.done()
    return every


def _is_name(column: Any) -> bool:
    return isinstance(column, str) and column != ""


def _columns_of(field: str, names: Any) -> tuple[str, ...]:
    """Return a name or a list of names as a tuple; None is no name."""
    if names is None:
        return ()
    listed = (names,) if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or not listed:
        raise QueryError(f"{field}: expected the name of a column or a list of names, got {names!r}")
    for name in listed:
        if not _is_name(name):
            raise QueryError(f"{field}: expected the name of a column or None, got {name!r}")
        if listed.count(name) > 1:
            raise QueryError(f"{field}: expected names of columns that differ, got {names!r}")
    return tuple(listed)
