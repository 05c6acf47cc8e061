"""Naive: every client tells every change; the baseline of SIGMOD 2009, section 7. No message goes down.

Cost: a skyline computed again at each timestamp.
"""

from __future__ import annotations

import numpy as np

from topwatch.edge.protocol.records import Outcome, Records


class Naive(Records):
    """The server of the naive method."""

    def finish(self) -> Outcome:
        """End the timestamp."""
        return Outcome(self._skyline(np.flatnonzero(self.alive)))
