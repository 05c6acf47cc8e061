"""How often each id was in the skyline, over the last so many snapshots or those of them that were sampled.

SIGMOD 2009, Algorithm 6, lines 6 to 17: a counter for each record and the skyline of each sampled snapshot, which is
taken off again when it leaves the window. Retained: the skylines, at most one for each snapshot of the window.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.saved_state import Saved


class Shares:
    """Counts by entity.

    Parameters
    ----------
    snapshots : int
        How many of the last snapshots count.
    entities : int
        How many there can be, until :meth:`grow`.

    Examples
    --------
    >>> shares = Shares(snapshots=3, entities=2)
    >>> for number, skyline in enumerate([[0], [0, 1], [1], [1]]):
    ...     shares.take(number, np.array(skyline))
    >>> shares.frequent(0.5)
    (array([1]), array([1.]))
    """

    def __init__(self, snapshots: int, entities: int = 0) -> None:
        self._snapshots = snapshots
        self._count: Ints = np.zeros(entities, np.int64)
        self._since: Ints = np.zeros(entities, np.int64)  # earlier snapshots knew another id by this number
        self._skylines: deque[tuple[int, Ints]] = deque()
        self.taken = 0  # the number of the last snapshot, sampled or not

    def take(self, number: int, members: Ints | None) -> None:
        """Take a snapshot, whose skyline has these members; None when it is not sampled. Numbers rise. O(members)."""
        self.taken = number
        if members is not None:
            self._skylines.append((self.taken, members))
            self._count[members] += 1
        while self._skylines and self._skylines[0][0] <= self.taken - self._snapshots:
            number, old = self._skylines.popleft()
            self._count[old[self._since[old] <= number]] -= 1

    def forget(self, entities: Ints) -> None:
        """Forget ids that are gone; call it before the snapshot that does not have them."""
        self._count[entities] = 0
        self._since[entities] = self.taken + 1

    def frequent(self, share: float) -> tuple[Ints, Floats]:
        """Return the entities that were in at least a share of the skylines that count, and in which. O(entities)."""
        result = self.counted()
        shares = self._count[result] / max(1, len(self._skylines))
        return result[shares >= share], shares[shares >= share]

    def counted(self) -> Ints:
        """Return the entities that were in one of the skylines that count."""
        return np.flatnonzero(self._count)

    def grow(self, entities: int) -> None:
        """Make room for so many, if there is less."""
        more = np.zeros(max(0, entities - self._count.size), np.int64)
        self._count, self._since = np.concatenate([self._count, more]), np.concatenate([self._since, more])

    def save(self, row_of: Ints) -> dict[str, np.ndarray]:
        """Return all as arrays; entities are known by the rows that they have, -1 where they have none."""
        kept = [row_of[old[self._since[old] <= number]] for number, old in self._skylines]
        assert all((rows >= 0).all() for rows in kept)
        return {
            "taken": np.array([self.taken]),
            "numbers": np.array([number for number, _ in self._skylines], np.int64),
            "sizes": np.array([rows.size for rows in kept], np.int64),
            "rows": np.concatenate([np.zeros(0, np.int64), *kept]),
        }

    def load(self, saved: Saved, entity_of: Ints) -> None:
        """Undo :meth:`save`, given the entities of the rows."""
        (self.taken,) = saved.ints("taken", 1, low=0).tolist()
        numbers = saved.rising("numbers", None, low=max(0, self.taken - self._snapshots + 1), high=self.taken)
        sizes = saved.ints("sizes", numbers.size, low=0, high=entity_of.size)
        rows = saved.ints("rows", int(sizes.sum()), low=0, high=entity_of.size - 1)
        members = entity_of[rows]
        pairs = np.repeat(np.arange(sizes.size), sizes) * max(1, self._count.size) + members
        saved.expect(np.unique(pairs).size == pairs.size, "rows", "each id once in a skyline")
        parts = np.split(members, np.cumsum(sizes)[:-1]) if sizes.size else []
        self._skylines = deque(zip(numbers.tolist(), parts, strict=True))
        self._since[:] = 0
        self._count[:] = np.bincount(members, minlength=self._count.size)

    def bytes(self) -> int:
        """Size of the arrays."""
        return int(self._count.nbytes + self._since.nbytes + sum(part.nbytes for _, part in self._skylines))

    def _check(self) -> None:
        total = np.zeros_like(self._count)
        for number, old in self._skylines:
            assert self.taken - self._snapshots < number <= self.taken
            total[old[self._since[old] <= number]] += 1
        assert np.array_equal(total, self._count)
