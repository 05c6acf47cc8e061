"""Load: a monitor that falls behind answers approximately until there is room again (TKDE 2011, section 10).

Rows are taken to arrive at their event times. What a push takes adds to the lag, the event time that passes takes from
it: the lag is how long a row that arrives now would wait. Clocks are compared with nothing but themselves, so that a
stream that is replayed faster than it once came is not behind.

The levels are the exact algorithm, AHBA and AMSA. Whether a level is worth its errors is measured: what a row costs at
each of them is remembered, and a level that turned out no faster is left again.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from topwatch.algorithms.registry import SHEDDING, algorithms, entry_of, rougher
from topwatch.core.saved_state import Fields
from topwatch.core.schedule import interpreted_seconds
from topwatch.monitor.planner import QueryPlan
from topwatch.query.errors import PlanError, QueryError
from topwatch.query.windows import duration

if TYPE_CHECKING:
    from topwatch.monitor.changes import Changes

ROOM = 0.8  # of the event time that passes may be spent, as foreseen, at a level to go back to
FADING = 0.99  # what other levels cost is forgotten slowly, so that they are tried again


def levels() -> tuple[str, ...]:
    """Return the algorithm of each level; the first is the exact one, whichever that is."""
    return ("", *rougher())


@dataclass
class Load:
    """How far behind a monitor is, and how well it answers for that; what can be saved is in plain numbers.

    Attributes
    ----------
    most : float
        Seconds of lag from which on less is exact.
    lag : float
        Seconds.
    level, wanted, evaluated : int
        Of :func:`levels`: now, from the next push on, and at the last evaluation.
    level_changes : int
        How often the level has changed.
    costs : list of float
        Seconds that a row took at each level, 0 where that is not known.
    now : float or None
        The latest event time, in seconds.
    fresh : bool
        The next push comes first at its level: indexes are made and kernels compiled, which says nothing of its pace.
    busy, passed, rows : number
        Of the pushes since the last decision: seconds they took, seconds of event time, rows.
    """

    most: float
    lag: float = 0.0
    level: int = 0
    wanted: int = 0
    evaluated: int = 0
    level_changes: int = 0
    costs: list[float] = field(default_factory=lambda: [0.0] * len(levels()))
    now: float | None = None
    fresh: bool = True
    busy: float = 0.0
    passed: float = 0.0
    rows: int = 0

    def record(self, seconds: float, rows: int, now: float) -> None:
        """Record a push: how long it took, its rows and the latest event time."""
        passed = max(0.0, now - self.now) if self.now is not None else 0.0
        self.lag = max(0.0, self.lag - passed) + seconds
        started = self.now is not None and not self.fresh
        self.now, self.fresh = now, False
        if started:
            self.busy, self.passed, self.rows = self.busy + seconds, self.passed + passed, self.rows + rows
            if max(self.busy, self.passed) >= self.most / 2 and self.rows:
                self._decide()

    def _decide(self) -> None:
        cost = self.busy / self.rows
        self.costs = [FADING * known for known in self.costs]
        self.costs[self.level] = cost
        if self.lag > self.most and self.busy > self.passed:
            above = [level for level in range(self.level + 1, len(self.costs)) if self.costs[level] < cost]
            below = [level for level in range(self.level) if self.costs[level] <= cost]
            if above:
                self.wanted = above[0]
            elif below:
                self.wanted = min(below, key=lambda level: self.costs[level])
        elif self.lag <= self.most / 2 and self.passed > 0:
            rate = self.rows / self.passed
            fits = (level for level in range(self.level) if self.costs[level] * rate <= ROOM)
            self.wanted = next(fits, self.level)
        self.busy = self.passed = 0.0
        self.rows = 0

    def choice(self, exact: QueryPlan) -> QueryPlan:
        """Return what serves a query now, given what would serve it exactly."""
        if self.level == 0:
            return exact
        reason = f"it is behind, by more than max_lag; {exact.algorithm} serves it again when there is room"
        return QueryPlan(exact.query, levels()[self.level], reason)


class LoadShedder:
    """Chooses the algorithms of a monitor by its load.

    Parameters
    ----------
    most : float
        Seconds of lag from which on less is exact.
    """

    def __init__(self, most: float) -> None:
        self.load = Load(most)
        self.clock: Callable[[], float] = perf_counter
        self._interpreted = interpreted_seconds()

    def changes_level(self) -> bool:
        """Change to the level that is wanted; return whether it differs from the one before."""
        load = self.load
        if load.wanted == load.level:
            return False
        load.level, load.fresh = load.wanted, True
        load.level_changes += 1
        return True

    def after(self, began: float, rows: int, evaluated: bool, now: float | None) -> None:
        """Record a push that began at a moment, and the event time after it in seconds."""
        if evaluated:
            self.load.evaluated = self.load.level
        if interpreted_seconds() > self._interpreted:  # which says nothing of the pace of what is compiled
            self._interpreted, self.load.fresh = interpreted_seconds(), True
        if now is not None:
            self.load.record(self.clock() - began, rows, now)

    def stats(self) -> dict[str, int]:
        """Return the level, 0 for exact, how often it has changed, and the lag in milliseconds."""
        load = self.load
        return {"level": load.level, "switches": load.level_changes, "lag_ms": round(1000 * load.lag)}

    def noted(self, changes: Changes) -> Changes:
        """Return changes with a note that names the algorithm."""
        return changes.noted(note_of(levels()[self.load.level]))

    def save(self) -> dict[str, Any]:
        """Return the state as plain data."""
        fields = {name: value for name, value in dataclasses.asdict(self.load).items() if name != "most"}
        return {"switches" if name == "level_changes" else name: value for name, value in fields.items()}

    def restore(self, saved: Fields) -> None:
        """Undo :meth:`save`."""
        top = len(rougher())
        costs = saved.raw("costs")
        known = isinstance(costs, list) and len(costs) == top + 1 and all(map(_is_cost, costs))
        saved.expect(known, "costs", f"{top + 1} finite numbers of at least 0", costs)
        self.load = Load(
            self.load.most,
            lag=saved.number("lag", 0.0),
            level=saved.whole("level", 0, top),
            wanted=saved.whole("wanted", 0, top),
            evaluated=saved.whole("evaluated", 0, top),
            level_changes=saved.count("switches"),
            busy=saved.number("busy", 0.0),
            passed=saved.number("passed", 0.0),
            rows=saved.count("rows"),
            costs=[float(cost) for cost in costs],
            now=None if saved.missing("now") else saved.number("now"),
            fresh=saved.flag("fresh"),
        )
        saved.done()


def _is_cost(cost: object) -> bool:
    return isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < math.inf


def check_max_lag(max_lag: Any, algorithm: str, time: str | None) -> None:
    """Refuse a lag that cannot be measured, and an algorithm that has none less exact."""
    if not isinstance(max_lag, str | datetime.timedelta):
        raise QueryError(f"max_lag: expected a time such as '10 seconds', got {max_lag!r}")
    if time is None:
        raise QueryError("max_lag: how far a monitor is behind is measured by event time; give time=, its column")
    if algorithm in rougher():
        exact = ", ".join(name for name, known in algorithms().items() if known.family == SHEDDING and known.exact)
        raise PlanError(
            f"max_lag: {algorithm!r} is approximate already; max_lag goes with an exact algorithm: auto, brute, {exact}"
        )
    duration("max_lag", max_lag)


def note_of(algorithm: str) -> str:
    """Return the note of an answer: which approximate algorithm gave it; empty where it is exact."""
    return "" if not algorithm or entry_of(algorithm).exact else f"approximate: {algorithm}"
