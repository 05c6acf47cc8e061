"""AMS sketches: how large the join of a stream with itself is, and so how often a key comes again.

Alon, Gibbons, Matias, Szegedy: Tracking join and self-join sizes in limited storage. JCSS 2002. Each counter adds up a
random sign of every key; its square is, on the average, the sum of the squares of all keys' frequencies. Counters are
added, so that a window is the sum of the blocks of rows that are in it: the oldest block counts whole or not at all.

The standard error of the self-join size is at most √(2/c) of it for c counters: 9 % for 256.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from topwatch.algorithms.incomplete.sketch import mixed
from topwatch.core.kernels.scoring import Ints

WORDS = 4  # of 64 counters


class _Block(NamedTuple):
    last: int  # its last row
    rows: int
    signs: Ints


class SelfJoin:
    """A sketch of how often keys come in a window.

    Examples
    --------
    >>> join = SelfJoin()
    >>> join.add(np.arange(3000) // 3, np.arange(1, 3001))
    >>> bool(abs(join.size() / 9000 - 1) < 4 * join.error)
    True
    """

    error = (2 / (64 * WORDS)) ** 0.5

    def __init__(self) -> None:
        self._blocks: deque[_Block] = deque()

    def add(self, keys: Ints, rows: Ints) -> None:
        """Take in a block of rows with their keys."""
        if keys.size == 0:
            return
        bits = [np.unpackbits(_bytes(mixed(keys + seed)), axis=1) for seed in range(WORDS)]
        ones = np.concatenate([word.sum(axis=0, dtype=np.int64) for word in bits])
        self._blocks.append(_Block(int(rows[-1]), keys.size, keys.size - 2 * ones))

    def size(self, head: int = 1) -> float:
        """Estimate the size of the self-join of the rows from ``head`` on; blocks before are forgotten."""
        while self._blocks and self._blocks[0].last < head:
            self._blocks.popleft()
        if not self._blocks:
            return 0.0
        signs = np.sum([block.signs for block in self._blocks], axis=0)
        return float(np.mean(signs.astype(np.float64) ** 2))

    def repeats(self, head: int = 1) -> int:
        """Estimate how many rows the key of a row has, averaged over rows, and rounded up.

        >>> join = SelfJoin()
        >>> join.add(np.arange(999), np.arange(1, 1000))
        >>> join.repeats() <= 2
        True
        """
        size = self.size(head)
        rows = sum(block.rows for block in self._blocks)
        return max(1, int(np.ceil(size / rows - self.error))) if rows else 1

    def _check(self) -> None:
        assert all(block.signs.size == 64 * WORDS for block in self._blocks)


def _bytes(words: np.ndarray) -> np.ndarray:
    return words.view(np.uint8).reshape(words.size, 8)
