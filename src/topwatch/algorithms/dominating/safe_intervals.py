"""Safe intervals: EVA, ADA, AHBA and AMSA examine a row only when it could have come into the answer.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011, sections 4, 5 and 7. One loop over
events serves all four (:mod:`topwatch.algorithms.dominating.kernels.event_loop`); a :class:`Variant` is what one of
them does its own way. Windows are first in, first out. Memory per row: an event, 36 B beside the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from topwatch.algorithms.dominating.grid import DominanceGrid
from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED
from topwatch.algorithms.dominating.kernels.contenders import ROWS, Start, empty_contenders, ranked_members
from topwatch.algorithms.dominating.kernels.counting import new_walk
from topwatch.algorithms.dominating.kernels.event_loop import drive_events
from topwatch.algorithms.dominating.kernels.event_state import (
    LEVELS,
    NO_EVENT,
    NOBODY,
    EventScalars,
    EventState,
    LifeTable,
    Queue,
    Rules,
)
from topwatch.core.arrays import NO_INTS, Floats, Ints, size_of
from topwatch.core.engine import NO_STEP, StateFactory, Window
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import Report, Step, new_log, report_of
from topwatch.query.queries import Dominating

NO_START = Start(NO_INTS, NO_INTS, NO_INTS)


def eva(cells: int | None = None) -> StateFactory:
    """EVA: a row is examined again only when it could have come into the answer (section 4).

    Scores are exact for the answer only. Every other row has an event: a bound of its score, and until when it cannot
    have reached the k-th score (Lemma 1), since an event raises the one or lowers the other by one at most, and no row
    of the answer expires before. An arrival is bounded by a reference row that dominates it, searched for in the order
    of section 4.2. Only a row whose bound reaches the k-th score when it is due is counted, by fully and partially
    dominated cells (section 3).

    Errata. Fig. 5: without a reference row there is no bound (not one of -1); ``RemoveTop`` in the loop's condition
    loses the first event that is not due; a row that drops out of the answer needs an event again; an interval of 0
    would be scheduled for ever, so it is at least 1. A reference row's bound is that of its event, score and time kept
    together. Ours: the clock counts single events, which makes Lemma 1 hold in all windows; when an answer expires and
    all rows are due, those with the highest bounds are counted first; the search for a reference row goes on behind one
    that does not help, up to 32,768 rows.

    Cost: when a row of the answer expires all N rows are due.
    """
    return partial(EventContest, variant=Variant(cells=cells))


def ada(
    cells: int | None = None,
    near: int | None = None,
    maxcand: int | None = None,
    kept: float = 1.0,
    suffix: bool = False,
) -> StateFactory:
    """ADA: EVA with longer intervals, and with exact scores for rows that would be examined again and again.

    Section 5.

    *Later dominators* (5.1): rows outside the answer that dominate a row and expire later are always above it. Cells
    count the arrivals before them in every column; what a row's cell has counted since the row came, less the
    candidates and answers among them, is a lower bound. The paper keeps that up by adding to the counters of all rows
    that a new answer dominates; we subtract when the row is due, which touches nothing else. Arrivals are counted √N at
    a time, in one pass over all cells: the latest ones are not yet in a row's count. After a restart the arrivals of
    the live rows are counted again. A row with k later dominators, candidates and answers beside its cell among them,
    is never examined again. (The paper updates the rows beside a cell while it counts a row, at no extra cost, since
    its count visits them. Ours stops early and skips cells: for it, visiting them would cost as much as a whole count.)

    *Candidates* (5.2): rows due within Δt are followed exactly, at most ``maxcand`` of them (1 % of the window). Δt
    starts at a thousandth of the window (``near``); it grows while events and counts cost more than following
    candidates, up to 3/8 of the k-th score, and shrinks slowly otherwise. Not in the paper: a candidate whose interval
    has grown past 2 Δt gets an event again; candidates serve as reference rows, whose scores do not grow old; and a row
    stays out while k rows are above it, candidates as well as answers, so that the expiry of an answer makes few rows
    due (:mod:`topwatch.algorithms.dominating.kernels.intervals`).

    *Obsolete events* (5.3) are due after the row has expired. ``kept`` is the share of them that is kept, for
    reference.

    *Counts* (section 3) begin with the rows in cells not before the row's own and stop when it is known to be out for
    long. A row that would be due within Δt is bounded by that number first, before a reference row is searched for;
    ``suffix=True`` (ours) bounds every row by it.

    Errata. **Lemma 2 is wrong** where an expiry and an overtaking combine: the safe interval is the (r+1)-th smallest
    over the answer of min(life, score_j - score), not the smaller of the (r+1)-th smallest life and the gap to the
    (k-r)-th score. In a window of time any number of rows may arrive before a row expires, so that an event is obsolete
    only if the row has k later dominators.
    """
    variant = Variant(True, candidates(maxcand), near, suffix, kept=kept, cells=cells)
    return partial(EventContest, variant=variant)


def amsa(
    cells: int | None = None, near: int | None = None, maxcand: int | None = None, kept: float = 1.0
) -> StateFactory:
    """AMSA: ADA that examines rows of cells far below the answer only once (section 7.2). Approximate, no guarantee.

    A cell's rows are given no events when score_1 - score_k < score_k - minscore, minscore being the number of rows in
    cells that it dominates fully: as long as the stream does not drift, a row that is below the answer stays there. A
    row is examined when it arrives, as in ADA, and enters the answer or becomes a candidate if its score is that high;
    what is lost are rows that would have come up later. What is known of an excluded row serves as reference, like an
    obsolete event.

    minscore says how bad a cell's rows may be, not how good: some of them can be just below the answer. Ours excludes
    only those whose own bound is below three quarters of the k-th score; the others are rows of ADA.

    Nothing is excluded when score_1 >= 2 score_k, where it is ADA. minscore comes from suffix counts that are rebuilt
    every √N arrivals; ours: they bound scores as well.
    """
    variant = Variant(True, candidates(maxcand), near, suffix=True, exclude=True, kept=kept, cells=cells)
    return partial(EventContest, variant=variant)


def ahba(
    cells: int | None = None,
    near: int | None = None,
    maxcand: int | None = None,
    kept: float = 1.0,
    epsilon: float = 0.1,
    delta: float = 0.9,
) -> StateFactory:
    """AHBA: ADA that takes the mean of a cell's sample for a row's score before it counts one (section 7.1).

    Approximate. When a row's bound reaches the k-th score, the mean score of a random sample of its cell's rows stands
    for the row's score if it is smaller. With s = ln(1/(1-δ)) / (2 ε²) rows (Hoeffding), the sample's mean is below the
    mean of the cell by more than ε times the range of scores in the cell with a probability of at most 1-δ. The sampled
    rows' scores are kept exactly; those that expire are replaced by others drawn from the cell.

    What is bounded is the error of the *mean*: a row that is much better than its cell's mean can be missed. The mean
    stands for the *other* rows of a cell: a sampled row's score is known, and it enters the answer by that. In a cell
    with fewer rows than s all are sampled, and nothing is missed.

    A cell is sampled when a row in it would have to be counted, its best possible score (the rows in cells not before
    it) reaches the k-th, and it does not lie behind a sampled cell. The sampled rows that are at least as good as a row
    bound its score, exactly, as reference rows do; a row behind a sampled cell that these bounds leave open is counted.
    """
    samples = sample_size(epsilon, delta)
    variant = Variant(True, candidates(maxcand), near, suffix=True, kept=kept, samples=samples, cells=cells)
    return partial(EventContest, variant=variant)


def candidates(most: int | None) -> Callable[[int], int]:
    """Return how many candidates there are at most for so many rows: ``most``, or 1 %."""
    return lambda rows: most if most is not None else max(8, rows // 100)


def sample_size(epsilon: float, delta: float) -> int:
    """Return how many rows of a cell are sampled, equation (11).

    >>> sample_size(0.1, 0.9)
    116
    """
    return math.ceil(math.log(1 / (1 - delta)) / (2 * epsilon * epsilon))


@dataclass(frozen=True)
class Variant:
    """What one algorithm does its own way; see :class:`topwatch.algorithms.dominating.kernels.event_state.Rules`."""

    later: bool = False
    most: Callable[[int], int] = lambda rows: 0  # candidates, for so many rows of the window
    near: int | None = None  # rows due within so many updates become candidates, to begin with; by default 0.1 %
    suffix: bool = False
    exclude: bool = False
    kept: float = 1.0
    samples: int = 0
    cells: int | None = None  # along each axis


class EventContest:
    """A query whose rows are examined when their safe intervals end."""

    def __init__(
        self, window: Window, query: Dominating, column_of: Mapping[str, int], expected: int, variant: Variant
    ) -> None:
        self._window = window
        self._expected = expected
        self._variant = variant
        self._k = min(query.k, expected) if expected else query.k
        self._grid = DominanceGrid(window, query, column_of, expected, variant.cells)
        self._walk = new_walk(len(query.prefer), expected)
        self._now = record(EventScalars, table_made=-1)
        self._contenders, self._samples = empty_contenders(), empty_contenders()
        self._queue = self._new_queue()
        self._passed, self._coming, self._sums = (np.zeros(1, np.int32) for _ in range(3))
        self._recent: Ints = np.zeros(1, np.int64)
        self._table = LifeTable(np.zeros(LEVELS, np.int64), np.zeros((self._k + 1, LEVELS), np.int64))
        self._last_seq = 0  # of the rows processed
        self._moved = False
        self._set_near(expected)

    def _set_near(self, rows: int) -> None:
        near = self._variant.near if self._variant.near is not None else max(1, rows // 1000)
        self._now.near = 2 * near  # two events an update

    def _new_queue(self) -> Queue:
        size = self._window.capacity
        after, before, bucket = (np.full(size, NOBODY, np.int32) for _ in range(3))
        score, made = np.zeros(size, np.int32), np.zeros(size, np.int64)
        return Queue(np.full(size, NO_EVENT), score, made, after, before, bucket)

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots and scores that were last reported."""
        window = self._window
        self._last_seq = int(window.seq[slots[-1]]) if slots.size else 0
        self._build(slots, slots, reported)

    def _build(self, slots: Ints, learn_from: Ints, reported: tuple[Ints, Floats]) -> None:
        self._grid.build(learn_from, slots, bounds=np.zeros(self._window.capacity, np.int32))
        room = self._grid.room
        if not self._expected:
            self._set_near(room)
        cells = self._grid.blocks.count.size
        self._passed, self._coming, self._sums = (np.zeros(cells, np.int32) for _ in range(3))
        self._recent = np.zeros(max(4, math.isqrt(room)), np.int64)
        self._now.recent = 0
        self._now.table_made = -1
        self._queue = self._new_queue()
        self._contenders, self._samples = empty_contenders(), empty_contenders()
        self._moved = False
        known = slots[self._grid.codes[slots] != NOT_RANKED]
        more = min(self._variant.most(room), max(64, self._k)) if slots.size > 4 * self._k else 0
        seeds = np.concatenate([reported[0], self._grid.promising(known, self._k + more)])
        self._drive(NO_STEP, 0, Start(slots, seeds, reported[1].astype(np.int64)))

    def process(self, step: Step, index: int) -> Report:
        """Process a step of the window; return the changes at its evaluations."""
        if self._moved or self._grid.is_outdated():
            live = self._window.live_slots()
            self._build(live[self._window.seq[live] <= self._last_seq], live, self.answer())
        self._grid.encode(step.arrived)
        if step.arrived.size:
            self._last_seq = int(self._window.seq[step.arrived[-1]])
        return self._drive(step, index, NO_START)

    def _drive(self, step: Step, index: int, start: Start) -> Report:
        grid, v = self._grid, self._variant
        rules = Rules(self._k, self._expected, v.later, v.most(grid.room), v.suffix, v.exclude, v.kept, v.samples)
        state = EventState(
            self._window.rows(), grid.lanes, grid.codes, self._queue, self._passed, self._coming, self._recent,
            self._sums, self._now, self._walk, np.zeros(grid.lanes.shift.size, np.int64), self._table, rules,
        )  # fmt: skip
        grid.blocks, self._contenders, self._samples, log = drive_events(
            state, grid.blocks, self._contenders, self._samples, start, step, index, new_log()
        )
        return report_of(log)

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, best first."""
        return ranked_members(self._contenders)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        n = self._contenders.size[ROWS]
        self._contenders.slot[:n] = self._contenders.seq[:n] & (self._window.capacity - 1)
        self._moved = True

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        counters, now = self._walk.counters, self._now
        mine = (self._passed, self._coming, self._recent, self._sums, self._table, self._walk.deferred)
        followed = [(c.table, c.gone) for c in (self._contenders, self._samples)]
        return {
            "scores": int(counters.counted),
            "comparisons": int(counters.compared),
            "events": int(now.events),
            "obsolete": int(now.obsolete),
            "evicted": int(now.evicted),
            "excluded": int(now.excluded),
            "sampled": int(self._samples.size[ROWS]),
            "estimates": int(now.estimates),
            "recomputations": 0,
            "kept": int(self._contenders.size[ROWS]),
            "bytes": self._grid.bytes() + size_of(self._queue, mine, followed),
        }

    def _check(self, rows: Ints) -> None:
        if self._moved:
            return
        mine = rows[self._window.seq[rows] <= self._last_seq]
        self._grid._check(mine)
        c, n = self._contenders, int(self._contenders.size[ROWS])
        assert np.all(np.diff(c.seq[:n]) > 0)
        assert np.array_equal(self._grid.codes[c.slot[:n]], c.code[:n])
        assert np.all(self._queue.due[c.slot[:n]] == NO_EVENT)
        q, linked = self._queue, 0
        for bucket in np.flatnonzero(q.bucket != NOBODY).tolist():
            slot = int(q.bucket[bucket])
            while slot != NOBODY:
                assert q.due[slot] & (q.bucket.size - 1) == bucket
                linked += 1
                slot = int(q.after[slot])
        assert linked == np.count_nonzero(q.due[mine] >= 0)
