"""Filter: each record has a box, and as long as all stay in theirs the skyline has not changed. Exact at any time.

Zhang et al., SIGMOD 2009, section 4 and Algorithms 1 to 5. A record reports when it leaves its box; the server then
probes those, and only those, without whose values dominance stays uncertain.

Differences to the paper:

* Only pairs of skyline records are compared when filters are made (:mod:`topwatch.algorithms.skyline.kernels.filters`).
* Algorithm 5 is greedy: between two records without filter it first chooses the bound that is best for the one. Only
  probe sources inside the gap limit how much of it is taken; without any the other fails at once. Here the boundary
  between two such records is where the sum of both costs is least.
* Filters reach to infinity where the paper's end at 0 and 1, and speeds are kept per column: columns need not have one
  scale.
* Algorithm 2 probes one record after the other. Here probes go out in rounds, the most promising first and more in each
  round, so that a timestamp takes few round trips.
* The paper leaves open which dominator a filter is put behind: here it is the one that costs least.

Cost per timestamp with n records, f of them with new filters, s in the skyline and a not certainly dominated:
O(n + a² + f s) comparisons; comparisons stop early.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.skyline.kernels import dominance, filters
from topwatch.core.arrays import NO_INTS, Floats, Ints
from topwatch.edge.protocol.device_records import Outcome, Records, Settings
from topwatch.edge.protocol.messages import ALL, FILTER

PROBE_SOURCES = 64  # M of the paper, which gives no number
_SLOWEST = 1e-3  # of the mean speed: a record that never moved may


class FilterMethod(Records):
    """The server of the filter method."""

    BY_SLOT = (
        *Records.BY_SLOT,
        *("known", "in_skyline", "dominator", "speed", "reported", "_witness", "_out", "_sure", "_unranked"),
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.known = np.zeros(0, np.bool_)  # its values are those of this timestamp
        self.in_skyline = np.zeros(0, np.bool_)
        self.dominator: Ints = np.zeros(0, np.int64)
        self.speed: Floats = np.zeros((0, settings.columns))
        self.reported: Ints = np.zeros(0, np.int64)  # when it last reported its values
        self._witness: Ints = np.zeros(0, np.int64)
        self._out = np.zeros(0, np.bool_)
        self._sure = np.zeros(0, np.bool_)
        self._unranked = np.zeros(0, np.bool_)  # has to be notified that it has no filter
        self._log: list[Floats] = []
        self._rows: Ints | None = None
        self._new: list[Ints] = []
        self._width = 1

    def begin(self, tick: int) -> None:
        """Start a timestamp."""
        super().begin(tick)
        self.known[:] = False
        self._unranked[:] = False
        self._rows, self._new, self._width = None, [], 1

    def report(self, slots: Ints, values: Floats) -> None:
        """Take the values of records that joined or left their filter."""
        self._receive(slots, values)
        self._rows = None  # whatever was decided before may rest on a box that does not hold

    def remove(self, slots: Ints) -> None:
        """Take records that left."""
        super().remove(slots)
        self.reported[slots] = -1
        self._unranked[slots] = False
        self._rows = None

    def answer(self, slots: Ints, values: Floats) -> None:
        """Take the values of records that were probed."""
        inside = ((self.low[slots] <= values) & (values <= self.high[slots])).all()
        self._receive(slots, values)
        if not inside:
            self._rows = None

    def questions(self) -> Ints:
        """Return the records to probe (Algorithm 2)."""
        if self._rows is None:
            self._rows = self._candidates()
            fresh = NO_INTS
        else:
            fresh = np.concatenate(self._new) if self._new else NO_INTS
        self._new = []
        rows = self._rows = self._rows[self.alive[self._rows] & ~self._out[self._rows]]
        open_rows = dominance.decide_dominance(self.low, self.high, rows, fresh, self._out, self._sure, self._witness)
        if not open_rows:
            return NO_INTS
        done = self._out | self._sure
        unknown = rows[~done[rows] & ~self.known[rows]]
        if unknown.size:
            # Those probed first may dominate the others: a quarter of them at a time.
            return unknown[: -(-unknown.size // 4)]
        ask = np.zeros(len(self.alive), np.bool_)
        rows = rows[~self._out[rows]]
        dominance.choose_suspects(self.low, self.high, rows, self.known, done, self._width, ask)
        if self._width == 1:
            self._log = [*self._log, *self.point[rows[~done[rows]][-PROBE_SOURCES:]]][-PROBE_SOURCES:]
        self._width *= 2
        return np.flatnonzero(ask)

    def finish(self) -> Outcome:
        """End the timestamp: the skyline, and filters for all that reported their values (Algorithm 3)."""
        skyline = self._settled()
        self._make_filters(skyline)
        fresh = self.known & self.alive
        self.mode[fresh] = FILTER
        return Outcome(skyline, np.flatnonzero(fresh | self._unranked))

    def _receive(self, slots: Ints, values: Floats) -> None:
        Records.report(self, slots, values)
        gone = slots[~self.alive[slots]]
        self._unranked[gone] = True
        self.mode[gone] = ALL

    def _members(self) -> np.ndarray:
        """Mark the records that filters are for."""
        return self.alive

    def _take(self, slots: Ints, values: Floats) -> None:
        before = self.reported[slots] >= 0
        with np.errstate(invalid="ignore"):
            moved = np.abs(values - self.point[slots]) / np.maximum(1, self.tick - self.reported[slots])[:, None]
        moved[~np.isfinite(moved) | ~before[:, None]] = 0.0
        self.speed[slots] = np.maximum(self.speed[slots], moved)
        self.reported[slots] = self.tick
        self.point[slots] = self.low[slots] = self.high[slots] = values
        self.known[slots] = True
        self._new.append(slots)

    def _candidates(self) -> Ints:
        """Return the records that are not certainly dominated, likely dominators first."""
        members = self._members()
        dominator = np.maximum(self.dominator, 0)
        # A record and its dominator that both keep their filter stay as they are (Lemma 4.2).
        settled = members & ~self.known & (self.dominator >= 0) & (members & ~self.known)[dominator]
        self._out[:] = settled
        self._sure[:] = False
        self._witness[:] = -1
        rows = np.flatnonzero(members & ~settled)
        rows = rows[np.argsort(_order(self.high[rows]), kind="stable")]
        keep = np.zeros(rows.size, np.bool_)
        dominance.keep_undominated(self.low, self.high, rows, keep)
        self._out[rows[~keep]] = True
        rows = rows[keep]
        return rows[np.argsort(_order(self.low[rows]), kind="stable")]

    def _settled(self) -> Ints:
        rows = self._rows if self._rows is not None else NO_INTS
        return np.sort(rows[self._sure[rows] & self.alive[rows]])

    def _make_filters(self, skyline: Ints) -> None:
        members = self._members()
        self.in_skyline[:] = False
        self.in_skyline[skyline] = True
        fresh = self.known & members
        settled = members & ~fresh & ~self.in_skyline & (self.dominator >= 0)
        above = np.maximum(self.dominator, 0)
        settled &= (self.in_skyline & ~fresh)[above]
        orphans = np.flatnonzero(members & ~fresh & ~self.in_skyline & ~settled)
        children = np.flatnonzero(fresh & ~self.in_skyline)
        self.low[fresh], self.high[fresh] = -np.inf, np.inf
        self.dominator[skyline] = -1
        filters.construct(self._filters(fresh), skyline, orphans, children, self.dominator)

    def _filters(self, fresh: np.ndarray) -> filters.Filters:
        moving = self.speed[self.alive & (self.reported >= 0)]
        # Each is divided before they are added: a sum of large speeds would be infinite, and so would be all filters.
        mean = (moving / max(1, len(moving))).sum(axis=0)
        root = np.sqrt(np.maximum(self.speed, np.where(mean > 0.0, _SLOWEST * mean, 1.0)))
        log = np.array(self._log).reshape(-1, self.settings.columns)
        d, up, down = self.settings.columns, self.settings.up, self.settings.down
        cost = filters.Costs((up + down) / (2 * d), (up + 2 * down) / d, float(up + 2 * down))
        return filters.Filters(self.low, self.high, self.point, root, fresh, log, cost)

    def _blank(self, name: str) -> float:
        return -1 if name in ("dominator", "reported", "_witness") else super()._blank(name)

    def _check(self) -> None:
        """Assert that the filters are robust: Lemma 4.1 for the skyline, Lemma 4.2 for all others."""
        members = np.flatnonzero(self._members())
        low, high = self.low[members], self.high[members]
        assert (low <= high).all()
        for i, slot in enumerate(members):
            if self.in_skyline[slot]:
                possible = (low <= high[i]).all(axis=1) & (low < high[i]).any(axis=1)
                possible[i] = False
                assert not possible.any(), (slot, members[possible])
            else:
                certain = (high <= low[i]).all(axis=1) & (high < low[i]).any(axis=1)
                assert certain.any(), slot
            if self.known[slot]:
                assert (low[i] <= self.point[slot]).all(), slot
                assert (self.point[slot] <= high[i]).all(), slot


def _order(corners: Floats) -> Floats:
    with np.errstate(invalid="ignore", over="ignore"):
        total: Floats = corners.sum(axis=1)
    return total
