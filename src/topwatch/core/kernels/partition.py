"""Rows apart by bucket and by group: numbers from keys, and values to where their bucket or group lies."""

from __future__ import annotations

import numpy as np

from topwatch.core.jit import ZERO, inlined, kernel
from topwatch.core.kernels.scoring import Floats, Ints


@inlined
def mixed(value: np.uint64) -> np.uint64:
    """Spread a value over all bits (the finaliser of SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel
def number_keys(keys: np.ndarray, buckets: int, out: np.ndarray) -> None:
    """Write the number of each key's bucket, for keys of one whole number."""
    for i in range(len(keys)):
        out[i] = mixed(mixed(keys[i])) % np.uint64(buckets)


@kernel
def indices_of(number: np.ndarray, buckets: int) -> tuple[Ints, Ints]:
    """Return where each row goes, those of a bucket together and in order, and where buckets begin."""
    start = np.zeros(buckets + 1, np.int64)
    for i in range(len(number)):
        start[number[i] + 1] += 1
    for b in range(buckets):
        start[b + 1] += start[b]
    next_index = start.copy()
    index = np.empty(len(number), np.int64)
    for i in range(len(number)):
        b = number[i]
        index[i] = next_index[b]
        next_index[b] += 1
    return index, start


@kernel
def scatter(values: np.ndarray, index: Ints, first: int, out: np.ndarray) -> None:
    """Write values from row ``first`` on to their indices."""
    for i in range(ZERO, len(values)):
        out[index[first + i]] = values[i]


@kernel
def pick(values: Ints, index: Ints, out: Ints) -> None:
    """Write the values at some indices."""
    for i in range(ZERO, len(index)):
        out[i] = values[index[i]]


@kernel
def scatter_rows(a: Floats, b: Floats, c: Floats, d: Floats, index: Ints, first: int, out: Floats, column: int) -> None:
    """Write up to four values of rows, from row ``first`` on, side by side to their indices: a cache line each."""
    some = out.shape[1] - column
    for i in range(ZERO, len(a)):
        to = index[first + i]
        out[to, column] = a[i]
        if some > 1:
            out[to, column + 1] = b[i]
        if some > 2:
            out[to, column + 2] = c[i]
        if some > 3:
            out[to, column + 3] = d[i]


@kernel
def number_groups(keys: np.ndarray, held: np.ndarray, numbers: Ints, out: Ints) -> bool:
    """Write the number of each key, from a hash table whose size is a power of two; tell whether all have one."""
    mask = np.uint64(len(held) - 1)
    for i in range(len(keys)):
        slot = mixed(keys[i]) & mask
        while numbers[slot] >= 0 and held[slot] != keys[i]:
            slot = (slot + np.uint64(1)) & mask
        if numbers[slot] < 0:
            return False
        out[i] = numbers[slot]
    return True


@kernel
def place_groups(keys: np.ndarray, known: Ints, held: np.ndarray, numbers: Ints) -> None:
    """Put keys, each another one, and their numbers into an empty hash table for :func:`number_groups`."""
    mask = np.uint64(len(held) - 1)
    for i in range(len(keys)):
        slot = mixed(keys[i]) & mask
        while numbers[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        held[slot] = keys[i]
        numbers[slot] = known[i]


@kernel
def by_group(group: Ints, groups: int) -> tuple[Ints, Ints, Ints]:
    """Sort rows by group, those of one staying in order: return where each row goes, the groups, their starts."""
    n = len(group)
    next_index = np.zeros(groups + 1, np.int64)
    for r in range(n):
        next_index[group[r] + 1] += 1
    some = ZERO
    for g in range(groups):
        some += int(next_index[g + 1] > 0)
    result = np.empty(some, np.int64)
    start = np.empty(some + 1, np.int64)
    start[some] = n
    some = ZERO
    for g in range(groups):
        if next_index[g + 1] > 0:
            result[some] = g
            start[some] = next_index[g]
            some += 1
        next_index[g + 1] += next_index[g]
    index = np.empty(n, np.int64)
    for r in range(n):
        g = group[r]
        index[r] = next_index[g]
        next_index[g] += 1
    return index, result, start
