"""Hybrid: calm records have filters, restless ones are sampled. The answers are those of Sampling.

Zhang et al., SIGMOD 2009, section 6 and Algorithm 7. Records in filter mode (FM) or mixed mode (MM) have filters that
are kept right among themselves at every timestamp; those in MM, the skyline among them, and those in sampling mode (SM)
report at sampled timestamps. A record in FM is dominated by one in MM, so that the skyline of a sampled snapshot is
that of the records in MM and SM (Lemma 6.1).

Readings of what the paper leaves open:

* FM to SM: messages per timestamp since the record got into FM, counted when as many timestamps have passed as two
  samples take on average, are more than 2 R. The paper switches records that are not in the skyline, and says
  that on anti-correlated data most records are in SM, though most are in the skyline. Here a record in MM is switched
  when its messages are more than 2 R for itself and for each record that it dominates: those would have to be sampled.
* SM to FM: the virtual filter is one among the last known values of the skyline of the filters. It holds at a sample
  when the record is in it and it is still robust among them. Then the record reports every change for a timestamp, and
  gets a filter at the next one.
* A record that leaves the skyline of its own without being contacted stays in MM until it is; nothing is sent for it.

Cost: that of Filter over the records in FM and MM, and a skyline computed again at sampled timestamps.
"""

from __future__ import annotations

import math

import numpy as np

from topwatch.algorithms.skyline.kernels import filters
from topwatch.core.arrays import NO_INTS, Floats, Ints
from topwatch.edge.protocol.device_records import Outcome, Settings
from topwatch.edge.protocol.filter import FilterMethod
from topwatch.edge.protocol.messages import ALL, FILTER, MIXED, SAMPLE

FACTOR = 2.0  # of the sampling rate: more messages than that, and a record is sampled
STEADY = 2  # samples for which the virtual filter has to hold, and after which a filter is evaluated


class Hybrid(FilterMethod):
    """The server of the hybrid method."""

    BY_SLOT = (*FilterMethod.BY_SLOT, "since", "messages", "held", "sample")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.since: Ints = np.zeros(0, np.int64)  # when it got into FM
        self.messages: Ints = np.zeros(0, np.int64)  # because of its filter, since then
        self.held: Ints = np.zeros(0, np.int64)  # samples for which the virtual filter has held; -1 without one
        self.sample: Ints = np.zeros(0, np.int64)  # when it last reported its values as a sample

    def report(self, slots: Ints, values: Floats) -> None:
        """Take the values of records that joined, left their filter or are sampled."""
        self.make_room(int(slots.max(initial=-1)) + 1)
        inside = ((self.low[slots] <= values) & (values <= self.high[slots])).all(axis=1) & self.alive[slots]
        only_sampled = (self.mode[slots] == SAMPLE) | ((self.mode[slots] == MIXED) & inside)
        self._sampled(slots[only_sampled], values[only_sampled])
        others = slots[~only_sampled]
        self.messages[others] += 2
        new = others[~self.met[others]]
        self.since[new], self.messages[new] = self.tick, 0
        super().report(others, values[~only_sampled])

    def answer(self, slots: Ints, values: Floats) -> None:
        """Take the values of records that were probed."""
        self.messages[slots] += 3
        super().answer(slots, values)

    def questions(self) -> Ints:
        """Return the records to probe; one that has reported its values as a sample need not be."""
        silent = np.flatnonzero(self.alive & (self.mode == ALL) & ~self.known)
        if silent.size:  # one that reports every change and is silent has not changed
            self._receive(silent, self.point[silent])
            self._rows = None
        probed = super().questions()
        while probed.size:
            reported = probed[self.sample[probed] == self.tick]
            if reported.size == 0:
                return probed
            FilterMethod.answer(self, reported, self.point[reported])
            others = probed[self.sample[probed] != self.tick]
            probed = others if others.size else super().questions()
        if self.settings.is_sampled(self.tick):
            front = self._settled()
            return np.compress(~self.known[front] & (self.sample[front] != self.tick), front)
        return NO_INTS

    def finish(self) -> Outcome:
        """End the timestamp."""
        front = self._settled()
        self._make_filters(front)
        fresh = self.known & self._members()
        self.mode[fresh] = FILTER
        self.mode[fresh & self.in_skyline] = MIXED
        skyline = None
        returned = NO_INTS
        if self.settings.is_sampled(self.tick):
            sampled = np.flatnonzero(self.alive & (self.mode == SAMPLE))
            skyline = self._skyline(np.sort(np.concatenate([front, sampled])))
            returned = self._return(front, sampled)
        joined = np.unique(self._joiners())
        restless = self._restless(returned)
        self.mode[restless] = SAMPLE
        self.in_skyline[restless] = False
        self.held[restless] = -1
        filtered = np.setdiff1d(np.flatnonzero(fresh | self._unranked), restless)
        return Outcome(skyline, np.union1d(filtered, returned), np.union1d(joined, restless))

    def _members(self) -> np.ndarray:
        members: np.ndarray = self.alive & (self.mode != SAMPLE)
        return members

    def _sampled(self, slots: Ints, values: Floats) -> None:
        whole = ~np.isnan(values).any(axis=1)
        self.alive[slots] = whole
        self.point[slots[whole]] = values[whole]
        self.sample[slots] = self.tick

    def _restless(self, returned: Ints) -> Ints:
        """Return the records that cost more with a filter than they would if they were sampled."""
        elapsed = self.tick - self.since
        members = self._members()
        behind = self.dominator[members & ~self.in_skyline]
        guarded = np.bincount(behind[behind >= 0], minlength=len(self.alive))
        often = self.messages > FACTOR * self.settings.rate * (1 + guarded) * np.maximum(elapsed, 1)
        result = np.flatnonzero(members & often & (elapsed >= math.ceil(STEADY / self.settings.rate)))
        return np.setdiff1d(result, returned)

    def _return(self, front: Ints, sampled: Ints) -> Ints:
        """Try virtual filters for sampled records, among the last known skyline; return those that calmed down."""
        low, high = self.low.copy(), self.high.copy()
        low[front] = high[front] = self.point[front]
        virtual = self._filters(np.zeros(len(self.alive), np.bool_))._replace(low=low, high=high)
        holding = np.zeros(sampled.size, np.bool_)
        filters.hold(virtual, front, sampled, holding)
        holding &= self.held[sampled] >= 0
        self.held[sampled] = np.where(holding, self.held[sampled] + 1, 0)
        again = sampled[~holding]
        filters.try_filters(virtual, front, again)
        self.low[again], self.high[again] = low[again], high[again]
        calm = sampled[self.held[sampled] >= STEADY]
        self.mode[calm] = ALL
        self.since[calm], self.messages[calm] = self.tick, 0
        return calm

    def _blank(self, name: str) -> float:
        return -1 if name in ("held", "sample") else super()._blank(name)
