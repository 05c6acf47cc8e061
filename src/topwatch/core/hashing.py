"""Hashes, the same on every machine and after every restart, and a hash table from integer ids to numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from topwatch.core.arrays import Bytes, Hashes, Ints
from topwatch.core.jit import inlined, kernel

FREE = -1


def _mix(value: Any) -> Any:
    """Spread a value over all bits (the finaliser of SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


mixed = inlined(_mix)  # in compiled code


def mix_all(values: Hashes) -> Hashes:
    """Spread each of many values over all bits, as ``mixed`` does.

    >>> mix_all(np.array([0, 1], np.uint64))
    array([                   0, 6238072747940578789], dtype=uint64)
    """
    with np.errstate(over="ignore"):
        result: Hashes = _mix(values)
    return result


@kernel
def hash_texts(offsets: Ints, data: Bytes, out: Hashes) -> None:
    """Hash bytes ``offsets[i]`` to ``offsets[i + 1]`` for each i, by FNV-1a of 64 bits."""
    for i in range(len(out)):
        value = np.uint64(0xCBF29CE484222325)
        for index in range(offsets[i], offsets[i + 1]):
            value = (value ^ np.uint64(data[index])) * np.uint64(0x100000001B3)
        out[i] = value


class Entities(NamedTuple):
    """A hash table from integer ids to numbers: open addressing, linear probing. Where a slot is empty, FREE."""

    id: Ints
    entity: Ints


def empty_table(size: int) -> Entities:
    """Return a table with so many slots, a power of two."""
    return Entities(np.zeros(size, np.int64), np.full(size, FREE))


def resized(table: Entities, size: int) -> Entities:
    """Return a table of another size with the same entries."""
    known = np.flatnonzero(table.entity != FREE)
    return table_of(table.id[known], table.entity[known], size)


def table_of(ids: Ints, numbers: Ints, size: int) -> Entities:
    """Return a table of ids, each another one, and their numbers."""
    table = empty_table(size)
    enter(table, ids, numbers[::-1].copy(), numbers.size, np.empty(numbers.size, np.int64))
    return table


@inlined
def index_of(table: Entities, key: int) -> int:
    """Return the index of an id in the table, or the free one where it belongs."""
    mask = len(table.id) - 1
    product = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    # The bits of floats are ids too: of these the lowest are zero, so that only the highest of the product differ.
    index = int((product >> np.uint64(32)) ^ (product >> np.uint64(48))) & mask
    while table.entity[index] != FREE and table.id[index] != key:
        index = (index + 1) & mask
    return index


@kernel
def find(table: Entities, ids: Ints, out: Ints) -> None:
    """Look up entities; FREE where an id is unknown."""
    for i in range(len(ids)):
        out[i] = table.entity[index_of(table, ids[i])]


@kernel
def enter(table: Entities, ids: Ints, spare: Ints, spares: int, out: Ints) -> int:
    """Look up entities and give unknown ids one of the spare numbers; return how many spares are left."""
    for i in range(len(ids)):
        index = index_of(table, ids[i])
        if table.entity[index] == FREE:
            spares -= 1
            table.id[index] = ids[i]
            table.entity[index] = spare[spares]
        out[i] = table.entity[index]
    return spares


@kernel
def forget(table: Entities, key: int) -> None:
    """Take an id out; the ids probed after it close the gap."""
    mask = len(table.id) - 1
    gap = index_of(table, key)
    if table.entity[gap] == FREE:
        return
    table.entity[gap] = FREE
    index = (gap + 1) & mask
    while table.entity[index] != FREE:
        entity = table.entity[index]
        table.entity[index] = FREE
        better = index_of(table, table.id[index])
        table.id[better] = table.id[index]
        table.entity[better] = entity
        index = (index + 1) & mask
