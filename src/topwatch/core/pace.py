"""How many rows of a batch are taken at once: many, but few as long as a kernel is interpreted.

An interpreted kernel takes as long for some hundred rows as a compiled one for all of a batch. Between two pieces it
can give way to the compiled one. How a batch is cut changes no exact answer, but it may change approximate ones. So for
approximate algorithms, whose answers must not depend on time, pieces are always large. Kernels that are not compiled
are waited for there.
"""

from __future__ import annotations

PIECE = 65_536  # rows that are taken at once
FIRST = 64  # rows, as long as it is not known whether kernels are compiled
MOST_INTERPRETED = 4_096  # rows; a kernel that is not compiled when a larger piece comes is waited for
SECONDS = 0.02  # that a piece may take while a kernel is interpreted


class Pace:
    """The size of the pieces of a stream.

    Attributes
    ----------
    rows : int
        Of the piece that is being taken.
    interpreted : float
        Seconds for which kernels were interpreted since that piece began.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.interpreted = 0.0
        self._cuts = True

    def restart(self, exact: bool) -> None:
        """Begin with few rows again: there is a new engine, whose kernels may not be compiled."""
        self.rows = 0
        self._cuts &= exact

    def next(self, left: int, piece: int = PIECE) -> int:
        """Begin the next piece; return how many of the rows that are left it has, at most ``piece``."""
        global _active
        _active = self
        spent, self.interpreted = self.interpreted, 0.0
        most = FIRST if not self.rows else piece
        if not self._cuts:
            most = piece
        elif self.rows and spent:
            most = max(1, min(MOST_INTERPRETED, int(min(2.0, SECONDS / spent) * self.rows)))
        self.rows = min(most, left)
        return self.rows


_active = Pace()  # that of the stream whose piece is being taken
_total = 0.0


def piece_rows() -> int:
    """Return how many rows the piece has that is being taken."""
    return _active.rows


def spend(seconds: float) -> None:
    """Count time for which a kernel was interpreted."""
    global _total
    _active.interpreted += seconds
    _total += seconds


def interpreted_seconds() -> float:
    """Return for how long kernels were interpreted in this process."""
    return _total
