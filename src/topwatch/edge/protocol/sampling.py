"""Sampling: all clients speak at the timestamps of a common schedule, and only then.

Zhang et al., SIGMOD 2009, section 5 and Algorithm 6. Frequencies are those among the sampled snapshots; Theorem 5.1
bounds how wrong they can be. The first timestamp is always sampled, since clients join with their values.

Cost: a skyline computed again at each sampled timestamp.
"""

from __future__ import annotations

import numpy as np

from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.edge.protocol.records import Outcome, Records
from topwatch.edge.protocol.reporting import SAMPLE


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
