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
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from topwatch.algorithms.registry import algorithms, rougher
from topwatch.core.saved_state import Fields
from topwatch.monitor import planner
from topwatch.monitor.planner import Choice
from topwatch.query.errors import PlanError, QueryError
from topwatch.query.queries import Dominating, Query, Threshold
from topwatch.query.windows import Window, duration

if TYPE_CHECKING:
    from topwatch.monitor.assignments import Assignment
    from topwatch.monitor.changes import Changes
    from topwatch.monitor.monitor import Monitor

LEVELS = ("", *rougher("dominating"))  # the first is the exact algorithm, whichever that is
ROOM = 0.8  # of the event time that passes may be spent, as foreseen, at a level to go back to
FADING = 0.99  # what other levels cost is forgotten slowly, so that they are tried again


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
        Of ``LEVELS``: now, from the next push on, and at the last evaluation.
    switches : int
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
    switches: int = 0
    costs: list[float] = field(default_factory=lambda: [0.0] * len(LEVELS))
    now: float | None = None
    fresh: bool = True
    busy: float = 0.0
    passed: float = 0.0
    rows: int = 0

    def record(self, seconds: float, rows: int, now: float) -> None:
        """Take note of a push: how long it took, its rows and the latest event time."""
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
            above = [level for level in range(self.level + 1, len(LEVELS)) if self.costs[level] < cost]
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

    def choice(self, exact: Choice) -> Choice:
        """Return what serves a query now, given what would serve it exactly."""
        if self.level == 0:
            return exact
        reason = f"it is behind, by more than max_lag; {exact.algorithm} serves it again when there is room"
        return Choice(exact.query, LEVELS[self.level], reason)


class LoadShedder:
    """Changes the engines of a monitor with its load.

    Parameters
    ----------
    most : str or timedelta
        The lag from which on less is exact.
    clock : function
        Returns seconds.
    """

    def __init__(self, most: Any, clock: Callable[[], float] | None) -> None:
        self.load = Load(duration("max_lag", most) / 1e9)
        self.clock = clock or time.perf_counter

    def before(self, monitor: Monitor) -> float:
        """Change the level if that is wanted; return when that began."""
        began = self.clock()
        load = self.load
        if load.wanted != load.level:
            load.level, load.fresh = load.wanted, True
            load.switches += 1
            change_engines(monitor)
        return began

    def after(self, monitor: Monitor, began: float, rows: int, evaluated: bool) -> None:
        """Take note of a push."""
        if evaluated:
            self.load.evaluated = self.load.level
        now = monitor._ingest.now
        if now is not None:
            self.load.record(self.clock() - began, rows, now * monitor._ingest.unit() / 1e9)

    def stats(self) -> dict[str, int]:
        """Return the level, 0 for exact, how often it has changed, and the lag in milliseconds."""
        load = self.load
        return {"level": load.level, "switches": load.switches, "lag_ms": round(1000 * load.lag)}

    def noted(self, changes: Changes) -> Changes:
        """Return changes with a note on how they were found."""
        return changes.noted(_note(LEVELS[self.load.level]))

    def save(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return dataclasses.asdict(self.load)

    def restore(self, saved: Fields) -> None:
        """Undo :meth:`save`; ``most`` was read when the switch was made."""
        top = len(LEVELS) - 1
        costs = saved.raw("costs")
        known = isinstance(costs, list) and len(costs) == len(LEVELS) and all(map(_is_cost, costs))
        saved.expect(known, "costs", f"{len(LEVELS)} finite numbers of at least 0", costs)
        self.load = Load(
            self.load.most,
            lag=saved.number("lag", 0.0),
            level=saved.whole("level", 0, top),
            wanted=saved.whole("wanted", 0, top),
            evaluated=saved.whole("evaluated", 0, top),
            switches=saved.whole("switches"),
            busy=saved.number("busy", 0.0),
            passed=saved.number("passed", 0.0),
            rows=saved.whole("rows"),
            costs=[float(cost) for cost in costs],
            now=None if saved.missing("now") else saved.number("now"),
            fresh=saved.flag("fresh"),
        )
        saved.done()


def _is_cost(cost: object) -> bool:
    return isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < math.inf


def checked_shedder(
    max_lag: Any, algorithm: str, time: str | None, clock: Callable[[], float] | None
) -> LoadShedder | None:
    """Return what switches a monitor, None where nothing is to; refuse what cannot be measured or made rougher."""
    if max_lag is None:
        return None
    if not isinstance(max_lag, str | datetime.timedelta):
        raise QueryError(f"max_lag: expected a time such as '10 seconds', got {max_lag!r}")
    if time is None:
        raise QueryError("max_lag: how far a monitor is behind is measured by event time; give time=, its column")
    if algorithm in LEVELS:
        exact = ", ".join(name for name, known in algorithms().items() if known.family == "dominating" and known.exact)
        raise PlanError(
            f"max_lag: {algorithm!r} is approximate already; max_lag goes with an exact algorithm: auto, brute, {exact}"
        )
    return LoadShedder(max_lag, clock)


def check_query(query: Query, name: str, window: Window) -> None:
    """Refuse a query that the approximate algorithms cannot serve."""
    if not isinstance(query, Dominating):
        raise PlanError(f"max_lag: query {name!r} has no approximate algorithm to fall back on; only Dominating has")
    for algorithm in LEVELS[1:]:
        reason = planner.refusal(query, window, algorithm)
        if reason:
            raise PlanError(f"max_lag: {algorithm!r} cannot serve query {name!r}: {reason}")


def note_of(assigned: Assignment, switch: LoadShedder | None) -> str:
    """Say that a query's answer is approximate, and by which algorithm; nothing where it is exact."""
    if isinstance(assigned.query, Threshold):
        return ""
    return _note(assigned.choice.algorithm if switch is None else LEVELS[switch.load.evaluated])


def _note(algorithm: str) -> str:
    known = algorithms().get(algorithm)
    return "" if known is None or known.exact else f"approximate: {algorithm}"


def change_engines(monitor: Monitor) -> None:
    """Let other engines go on from what was last reported, as after a restore."""
    feed = monitor._feed
    reported = [
        (assigned, *assigned.engine.answer(assigned.index, feed.live_slots)) for assigned in monitor._assigned.values()
    ]
    monitor._engines = {}
    for assigned, slots, keys in reported:
        assigned.choice = monitor._choose(assigned.query, assigned.name)
        assigned.engine, assigned.index = monitor._seat(assigned.query, assigned.choice)
        monitor._assignments.move(assigned)
        assigned.engine.set_answer(assigned.index, slots, keys)
    for engine in monitor._engines.values():
        engine.resume(feed.head, feed.evaluated_tick)
