"""Rows by cell: each cell has a block of consecutive entries for the codes, slots and bounds of its rows, oldest first.

A block that is full is compacted when its front is free, else its rows move to one half as large again; abandoned
blocks are used again. A row that expires is its cell's first, so that nothing is searched or moved for it.

An entry without a row has the code of a row that is not ranked. So a search for rows behind a code can scan the blocks
of many cells in one piece, without looking up where the rows of each begin and end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED, Lanes, cell_of
from topwatch.core.arrays import Ints
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf, long
from topwatch.core.kernels.memory import move

FIRST, KIND, BEGIN, SIZE = range(4)  # of a cell: first entry, size of the block, free entries at its front, rows
NO_BLOCK = -1
KINDS = 56
NO_BOUND = 2**30  # nothing is known of the row's score but the bound of its cell
CONTENDS = -(2**30)  # the row's score is kept exactly, among the contenders


class Blocks(NamedTuple):
    """All cells' rows. ``code``, ``slot`` and ``bound`` are pools; ``slot`` and ``bound`` are int32."""

    cell: np.ndarray  # (cells, 4), int32
    count: np.ndarray  # type: ignore[assignment]  # rows by cell, int32; nobody counts in the tuple
    code: Ints
    slot: np.ndarray
    bound: np.ndarray
    free: Ints  # by size of block: the first that is free; each names the next in ``slot``
    end: Ints  # one number: where the pools are unused


def empty_blocks(cells: int, entries: int = 64) -> Blocks:
    """Return cells without rows."""
    cell = np.zeros((cells, 4), np.int32)
    cell[:, KIND] = NO_BLOCK
    code, slot, bound = np.full(entries, NOT_RANKED), np.zeros(entries, np.int32), np.zeros(entries, np.int32)
    return Blocks(cell, np.zeros(cells, np.int32), code, slot, bound, np.full(KINDS, -1), np.zeros(1, np.int64))


@inlined
def span(b: Blocks, cell: int) -> tuple[int, int]:
    """Return the index of the first row of a cell, and the one after its last."""
    start = long(b.cell[cell, FIRST] + b.cell[cell, BEGIN])
    return start, start + b.cell[cell, SIZE]


@inlined
def room_of(kind: int) -> int:
    """Return how many entries a block has: 8, 12, 16, 24, 32 ..."""
    return (8 << (kind >> 1)) + (kind & 1) * (4 << (kind >> 1))


@inner
def with_space(b: Blocks, more: int) -> Blocks:
    """Return the blocks, moved to larger pools when fewer than ``more`` entries are unused."""
    have = len(b.code)
    if b.end[0] + more <= have:
        return b
    want = b.end[0] + more + have // 4
    code = np.empty(want, np.int64)
    slot = np.empty(want, np.int32)
    bound = np.empty(want, np.int32)
    for i in range(b.end[0]):
        code[i] = b.code[i]
        slot[i] = b.slot[i]
        bound[i] = b.bound[i]
    _empty(code, b.end[0], want)
    return Blocks(b.cell, b.count, code, slot, bound, b.free, b.end)


@inlined
def entries_needed(b: Blocks, cell: int) -> int:
    """Return how many unused entries the next row of a cell may take: 0 when its block has room."""
    kind = b.cell[cell, KIND]
    if kind == NO_BLOCK:
        return room_of(ZERO)
    if b.cell[cell, BEGIN] + b.cell[cell, SIZE] < room_of(kind):
        return 0
    return room_of(kind + 1)


@inlined
def put(b: Blocks, cell: int, code: int, slot: int, bound: int) -> None:
    """Append a row to its cell. The pools must have as many unused entries as :func:`entries_needed` returns."""
    if entries_needed(b, cell) > 0:
        _make_room(b, cell)
    _, at = span(b, cell)
    b.code[at] = code
    b.slot[at] = slot
    b.bound[at] = bound
    b.cell[cell, SIZE] += 1
    b.count[cell] += 1


@leaf
def _make_room(b: Blocks, cell: int) -> None:
    """Make room at the end of a cell's block."""
    kind = b.cell[cell, KIND]
    size = b.cell[cell, SIZE]
    if kind == NO_BLOCK:
        b.cell[cell, FIRST] = _take(b, ZERO)
        b.cell[cell, KIND] = 0
        b.cell[cell, BEGIN] = 0
    else:
        first = b.cell[cell, FIRST]
        start = first + b.cell[cell, BEGIN]
        if b.cell[cell, BEGIN] > room_of(kind) >> 3:
            _shift(b, first, start, size)
            _empty(b.code, max(start, first + size), start + size)
        else:
            new = _take(b, kind + 1)
            _shift(b, new, start, size)
            _empty(b.code, start, start + size)
            b.slot[first] = b.free[kind]
            b.free[kind] = first
            b.cell[cell, FIRST] = new
            b.cell[cell, KIND] = kind + 1
        b.cell[cell, BEGIN] = 0


@inlined
def _take(b: Blocks, kind: int) -> int:
    first = b.free[kind]
    if first >= 0:
        b.free[kind] = b.slot[first]
    else:
        first = b.end[0]
        b.end[0] = first + room_of(kind)
    return first


@inlined
def _shift(b: Blocks, to: int, start: int, count: int) -> None:
    move(b.code, long(to), long(start), long(count))
    move(b.slot, long(to), long(start), long(count))
    move(b.bound, long(to), long(start), long(count))


@inlined
def _empty(code: Ints, start: int, stop: int) -> None:
    for i in range(start, stop):
        code[i] = NOT_RANKED


@inlined
def find(b: Blocks, cell: int, slot: int) -> int:
    """Return the index of a row that is in a cell."""
    at, _ = span(b, cell)
    while b.slot[at] != slot:
        at += 1
    return at


@inlined
def remove(b: Blocks, cell: int, slot: int) -> int:
    """Remove a row from its cell and return its bound."""
    start, _ = span(b, cell)
    at = find(b, cell, slot)
    bound = b.bound[at]
    if at > start:
        _shift(b, start + 1, start, at - start)
    b.code[start] = NOT_RANKED
    b.cell[cell, BEGIN] += 1
    b.cell[cell, SIZE] -= 1
    b.count[cell] -= 1
    if b.cell[cell, SIZE] == 0:
        b.cell[cell, BEGIN] = 0
    return bound


@inlined
def _kind_for(rows: int) -> int:
    """Return the kind of block in which so many rows come and go for long before it must be moved or compacted."""
    kind = 0
    while room_of(kind) < rows + (rows >> 1) + 4:
        kind += 1
    return kind


@kernel
def fill(lanes: Lanes, codes: Ints, slots: Ints, bounds: Ints, b: Blocks, growth: float) -> Blocks:
    """Put rows into their cells, oldest first, with the bounds (int32, by slot) that are known.

    There will be ``growth`` times as many rows. Blocks lie in the order of their cells: a scan of adjacent cells
    reads memory in order, which is several times as fast as a cache miss for each.
    """
    for i in range(len(slots)):
        code = codes[slots[i]]
        if code != NOT_RANKED:
            b.count[cell_of(lanes, code)] += 1
    end = b.end[0]
    for cell in range(len(b.count)):
        if b.count[cell] > 0:
            kind = _kind_for(long(b.count[cell] * growth))
            b.cell[cell, FIRST] = end
            b.cell[cell, KIND] = kind
            end += room_of(kind)
            b.count[cell] = 0
    b = with_space(b, long(end - b.end[0]))
    b.end[0] = end
    for i in range(len(slots)):
        code = codes[slots[i]]
        if code != NOT_RANKED:
            put(b, cell_of(lanes, code), code, slots[i], bounds[slots[i]])
    return b


@kernel
def rename(b: Blocks, new: Ints) -> None:
    """Follow the rows to their new slots."""
    for cell in range(len(b.count)):
        start, stop = span(b, cell)
        for at in range(start, stop):
            b.slot[at] = new[b.slot[at]]
