"""Sketches of a window: how many distinct ids sources have reported, which of them two share, how often ids come again.

FM sketches count distinct ids. Flajolet, Martin: Probabilistic counting algorithms for data base applications. JCSS
1985, with stochastic averaging over several bitmaps; the form for windows is that of Haghani, Michel, Aberer, CIKM
2009, section 4: each bit carries the row that last set it, and counts while that row is live. The union of two sketches
is the later row, bit by bit.

The standard error of a count is 0.78/√m of it, for m bitmaps, and up to 1.2/√m from m to 3m ids. Counts of a few m are
corrected as Scheuermann and Mauve (2007) do; below, empty bitmaps are counted instead (linear counting).

What several sources share follows from unions by inclusion and exclusion. For two of them it is the sum of both counts
less that of the union (the sign is reversed in the paper). Its error is that of the counts that are added up, and so
relative to the union: at most √3 times that of a count, and less where the two overlap, since they then err alike.
:class:`Appearances` makes the probabilities of CIKM 2009 of it.

AMS sketches estimate how large the join of a stream with itself is, and so how often a key comes again. Alon, Gibbons,
Matias, Szegedy: Tracking join and self-join sizes in limited storage. JCSS 2002. Each counter adds up a random sign of
every key; its square is, on the average, the sum of the squares of all keys' frequencies. Counters are added, so that a
window is the sum of the blocks of rows that are in it: the oldest block counts whole or not at all. The standard error
of the self-join size is at most √(2/c) of it for c counters: 9 % for 256.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from topwatch.algorithms.incomplete.kernels.object_scores import Observations
from topwatch.core.arrays import Floats, Hashes, Ints
from topwatch.core.hashing import mix_all
from topwatch.core.jit import kernel, leaf

MOST_SOURCES = 10  # there are 2^10 unions
BITS = 40  # of a bitmap
EMPTY_SHARE = 0.1  # from this share of empty bitmaps on, they are what is counted
PHI = 0.77351  # of the FM estimate
KAPPA = 1.75  # of its correction for small counts
AMS_WORDS = 4  # of 64 counters


def empty_sketches(sources: int, bitmaps: int) -> Ints:
    """Return a sketch for each source: by bitmap, a power of two, and bit the row that last set it, 0 for none."""
    assert 0 < bitmaps <= 1 << 20
    assert bitmaps & (bitmaps - 1) == 0
    return np.zeros((sources, bitmaps, BITS), np.int64)


def standard_error(bitmaps: int) -> float:
    """Return the standard error of a count, relative to it."""
    return 0.78 / math.sqrt(bitmaps)


def add_rows(last: Ints, ids: Ints, sources: Ints, rows: Ints) -> None:
    """Take rows into the sketches of their sources (sources, bitmaps, bits); those of source -1 do not count."""
    mark(last, hashed(ids).view(np.int64) & np.int64((1 << 62) - 1), sources, rows)


def unions(last: Ints, head: int) -> Floats:
    """Estimate the distinct ids of each set of sources, as bits, in rows from ``head`` on."""
    counts = np.zeros(1 << len(last))
    count_unions(last, max(head, 1), counts)
    return counts


def intersections(counts: Floats) -> Floats:
    """Turn the sizes of unions into what all sources of a set have in common, by inclusion and exclusion."""
    sets = np.arange(counts.size)
    shared = np.where(np.bitwise_count(sets) % 2 == 1, counts, -counts)
    for s in range(counts.size.bit_length() - 1):
        without = sets[(sets >> s & 1) == 0]
        shared[without | 1 << s] += shared[without]
    return shared


def hashed(ids: Ints) -> Hashes:
    """Hash numbers (splitmix64)."""
    with np.errstate(over="ignore"):
        return mix_all(ids.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))


class Appearances:
    """How likely it is that a source reports an object, given all sources that have.

    Haghani, Michel, Aberer, CIKM 2009, section 4. One sliding FM sketch for each source is all that is kept. The sizes
    of all unions give those of all intersections by inclusion and exclusion, and these the probabilities.

    Parameters
    ----------
    sources : int
        How many, at most ``MOST_SOURCES``.
    bitmaps : int
        Of each sketch; a power of two. Memory: 320 B each.

    Attributes
    ----------
    error : float
        The standard error of a count, relative to it.
    """

    def __init__(self, sources: int, bitmaps: int) -> None:
        assert sources <= MOST_SOURCES
        self._last = empty_sketches(sources, bitmaps)
        self.error = standard_error(bitmaps)

    def add(self, rows: Observations) -> None:
        """Take in rows; those without a source do not count."""
        add_rows(self._last, rows.id, rows.source, rows.ordinal)

    def table(self, head: int) -> Floats:
        """Return Pr(a source reports an object | the set of sources that have), for all sets as bits, and sources.

        Where a set is too rare for its size to exceed the sketches' error, the mean over the sets with one source
        less stands for it. Nothing is known of objects that no source has reported: 1.
        """
        count = len(self._last)
        sizes = unions(self._last, head)
        among, error = intersections(sizes), sizes * self.error
        table = np.ones((1 << count, count))
        for seen in sorted(range(1, 1 << count), key=int.bit_count):
            members = [s for s in range(count) if seen >> s & 1]
            for s in range(count):
                if seen >> s & 1:
                    continue
                if among[seen] > error[seen] or len(members) == 1:
                    share = among[seen | 1 << s] / among[seen] if among[seen] > 0 else 0.0
                else:
                    share = np.mean([table[seen & ~(1 << m), s] for m in members])
                table[seen, s] = min(1.0, max(0.0, share))
        return table

    def bytes(self) -> int:
        """Size of the sketches."""
        return self._last.nbytes

    def _check(self) -> None:
        assert self._last.min() >= 0


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

    error = (2 / (64 * AMS_WORDS)) ** 0.5

    def __init__(self) -> None:
        self._blocks: deque[_Block] = deque()

    def add(self, keys: Ints, rows: Ints) -> None:
        """Take in a block of rows with their keys."""
        if keys.size == 0:
            return
        bits = [np.unpackbits(_bytes(hashed(keys + seed)), axis=1) for seed in range(AMS_WORDS)]
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
        assert all(block.signs.size == 64 * AMS_WORDS for block in self._blocks)


def _bytes(words: np.ndarray) -> np.ndarray:
    return words.view(np.uint8).reshape(words.size, 8)


@kernel
def mark(last: Ints, numbers: Ints, sources: Ints, rows: Ints) -> None:
    """Set the bits of rows, given by the hashed numbers of their ids, in the sketches (sources, bitmaps, BITS)."""
    bitmaps = last.shape[1]
    for i in range(len(rows)):
        if sources[i] < 0:
            continue
        bitmap = numbers[i] & (bitmaps - 1)
        bits = numbers[i] >> 20
        index = 0
        while index < BITS - 1 and bits & 1 == 0:
            bits >>= 1
            index += 1
        if last[sources[i], bitmap, index] < rows[i]:
            last[sources[i], bitmap, index] = rows[i]


@leaf
def _set(last: Ints, some: int, bitmap: int, index: int, head: int) -> bool:
    """Return whether one of some sources has set a bit since ``head``."""
    for s in range(len(last)):  # noqa: SIM110 - Numba compiles a plain loop well
        if (some >> s) & 1 and last[s, bitmap, index] >= head:
            return True
    return False


@kernel
def count_unions(last: Ints, head: int, counts: Floats) -> None:
    """Estimate how many distinct ids each set of sources, as bits, has reported in rows from ``head`` on."""
    bitmaps = last.shape[1]
    for some in range(1, len(counts)):
        total = 0
        empty = 0
        for bitmap in range(bitmaps):
            length = 0
            while length < BITS and _set(last, some, bitmap, length, head):
                length += 1
            total += length
            if length == 0:
                above = 1
                while above < BITS and not _set(last, some, bitmap, above, head):
                    above += 1
                empty += int(above == BITS)
        if empty > EMPTY_SHARE * bitmaps:
            counts[some] = -bitmaps * np.log(empty / bitmaps)
        else:
            mean = total / bitmaps
            counts[some] = bitmaps / PHI * (2.0**mean - 2.0 ** (-KAPPA * mean))
