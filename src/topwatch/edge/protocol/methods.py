"""The methods by name, and the two simple ones.

Naive: every client reports every change; the baseline of SIGMOD 2009, section 7. No message goes down. It computes a
skyline at each timestamp.

Sampling: all clients report at the timestamps of a common schedule, and only then. Zhang et al., SIGMOD 2009, section 5
and Algorithm 6. Frequencies are those among the sampled snapshots; Theorem 5.1 bounds how wrong they can be. The first
timestamp is always sampled, since clients join with their values. It computes a skyline at each sampled timestamp.
"""

from __future__ import annotations

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.edge.protocol.device_records import Outcome, Records, Settings
from topwatch.edge.protocol.filter import FilterMethod
from topwatch.edge.protocol.hybrid import Hybrid
from topwatch.edge.protocol.messages import SAMPLE
from topwatch.query.errors import PlanError, nearest_name


class Naive(Records):
    """The server of the naive method."""

    def finish(self) -> Outcome:
        """End the timestamp."""
        return Outcome(self._skyline(np.flatnonzero(self.alive)))


class Sampling(Records):
    """The server of the sampling method."""

    def report(self, slots: Ints, values: Floats) -> None:
        """Take the values of records that joined or are sampled."""
        super().report(slots, values)
        self.mode[slots] = SAMPLE

    def finish(self) -> Outcome:
        """End the timestamp."""
        sampled = self.settings.is_sampled(self.tick)
        return Outcome(
            self._skyline(np.flatnonzero(self.alive)) if sampled else None, scheduled=np.unique(self._joiners())
        )


METHODS: dict[str, type[Records]] = {"naive": Naive, "filter": FilterMethod, "sampling": Sampling, "hybrid": Hybrid}


def build(method: str, settings: Settings) -> Records:
    """Return the server's side of a method.

    >>> type(build("hybrid", Settings(columns=2))).__name__
    'Hybrid'
    """
    if not isinstance(method, str) or method not in METHODS:
        hint = nearest_name(method, METHODS) if isinstance(method, str) else ""
        raise PlanError(f"method: accepted are {', '.join(METHODS)}, got {method!r}{hint}")
    return METHODS[method](settings)
