"""How many rows a row dominates: cells behind its own in every column count whole, those beside it row by row.

With suffix counts (rows in cells not before a cell) the first part is one number, and the count can stop as soon as
its upper bound falls below a limit.

Codes can leave open whether a row dominates another: two values of one level differ in memory only, and rows lie all
over it. The more columns, the fewer levels a lane has, 126 with eight, and the more rows are left open. A count defers
them, since it may end without them; if it does not, all their values are read at once, so that the waits for memory
overlap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import BEGIN, FIRST, KIND, SIZE, Blocks, room_of, span
from topwatch.algorithms.dominating.kernels.codes import (
    NOT_RANKED,
    Lanes,
    beats,
    cell_behind,
    coordinate,
    covers,
    sum_cells,
    surely,
)
from topwatch.core.arrays import Ints
from topwatch.core.jit import ZERO, inlined, kernel, leaf, long
from topwatch.core.kernels.memory import prefetch, record
from topwatch.core.kernels.rows import Rows

PIECE = 64  # rows compared together
TOGETHER = 256  # rows whose values are read together
MOST_PIECES = 8192  # deferred


class Row(NamedTuple):
    """The row whose dominated rows are counted."""

    code: int
    sure: int  # see surely
    slot: int


class Deferred(NamedTuple):
    """Pieces of the pool of codes with rows that their codes leave open."""

    piece: Ints  # first entry * 2 * PIECE + entries
    size: Ints  # one number: how many
    entry: Ints  # room for rows whose values are read together
    slot: Ints


class PairCounts:
    """Counters since the start; a record."""

    counted: int  # scores so far
    compared: int  # rows that they were compared with


class Walk(NamedTuple):
    """Room for the way through the cells beside a cell, one entry per column."""

    order: Ints  # columns in the order in which their slabs are visited
    least: Ints
    most: Ints
    at: Ints
    counters: PairCounts
    deferred: Deferred


def new_walk(columns: int, rows: int) -> Walk:
    """Return room for a way through the cells of a window of so many rows, 0 when that is not known."""
    entry, slot = np.zeros((2, TOGETHER + PIECE), np.int64)
    pieces = min(MOST_PIECES, max(PIECE, rows // PIECE)) if rows else MOST_PIECES
    deferred = Deferred(np.zeros(pieces, np.int64), np.zeros(1, np.int64), entry, slot)
    order, least, most, at = np.zeros((4, columns), np.int64)
    return Walk(order, least, most, at, record(PairCounts), deferred)


@inlined
def row_of(lanes: Lanes, code: int, slot: int) -> Row:
    """Return a row to count for."""
    return Row(code, surely(lanes, code), long(slot))


@leaf
def count_behind(lanes: Lanes, b: Blocks, code: int, walk: Walk) -> int:
    """Count the rows of the cells behind a code's cell in every column, cell by cell."""
    for j in range(len(lanes.cell_shift)):
        walk.least[j] = coordinate(lanes, j, code) + 1
        walk.most[j] = (1 << lanes.bits[j]) - 1
        walk.at[j] = walk.least[j]
        if walk.least[j] > walk.most[j]:
            return 0
    total = 0
    while True:
        cell = _cell_at(lanes, walk)
        line = b.count[cell : cell + walk.most[0] - walk.least[0] + 1]
        part = ZERO
        for i in range(len(line)):
            part += line[i]
        total += part
        if not _advance(walk):
            return total


@inlined
def _cell_at(lanes: Lanes, walk: Walk) -> int:
    cell = 0
    for j in range(len(walk.at)):
        cell |= walk.at[j] << lanes.cell_shift[j]
    return cell


@inlined
def _advance(walk: Walk) -> bool:
    """Go to the next line of cells along the first column; the coordinates in the others count on like digits."""
    for j in range(1, len(walk.at)):
        if walk.at[j] < walk.most[j]:
            walk.at[j] += 1
            return True
        walk.at[j] = walk.least[j]
    return False


@leaf
def _order_slabs(lanes: Lanes, code: int, walk: Walk) -> None:
    """Order the columns: first those in which the row lies far behind in its cell, so that most rows fall out there."""
    for j in range(len(lanes.shift)):
        share = _share_passed(lanes, j, code)
        i = j
        while i > 0 and _share_passed(lanes, walk.order[i - 1], code) < share:
            walk.order[i] = walk.order[i - 1]
            i -= 1
        walk.order[i] = j


@inlined
def _share_passed(lanes: Lanes, j: int, code: int) -> float:
    inside = (code >> lanes.shift[j]) & ((1 << lanes.coarse[j]) - 1)
    return inside / (1 << lanes.coarse[j])


@leaf
def count_beside(
    lanes: Lanes, rows: Rows, b: Blocks, row: Row, most: int, enough: int, close: int, walk: Walk
) -> tuple[int, int]:
    """Count the dominated rows of the cells beside a row's cell.

    Returns the count and an upper bound of the whole score. ``most`` is the bound to start from; once it is below
    ``enough`` the count stops unfinished, and only the bound means something. Deferred rows are not looked up where the
    bound is below ``close`` with all of them; then, too, only the bound means something.
    """
    d = len(lanes.cell_shift)
    result = ZERO
    left_open = ZERO
    _order_slabs(lanes, row.code, walk)
    walk.deferred.size[0] = 0
    walk.counters.counted += 1
    for slab in range(d):
        more = _begin_slab(lanes, row.code, slab, walk)
        following = _cell_at(lanes, walk)
        while more:
            first = following
            last = first + walk.most[0] - walk.least[0]
            more = _advance(walk)
            following = _cell_at(lanes, walk)
            certain, maybe, held = _count_line(lanes, rows, b, first, last, row, walk.deferred)
            walk.counters.compared += held
            result += certain
            left_open += maybe - certain
            most -= held - maybe
            if most < enough:
                return result, most
    if left_open > 0 and most >= close:
        certain = _decide_deferred(lanes, rows, b, walk.deferred, row)
        result += certain
        most -= left_open - certain
    return result, most


@inlined
def _begin_slab(lanes: Lanes, code: int, slab: int, walk: Walk) -> bool:
    """Go to the first cell of a slab of the cells beside a code's cell; False where it has none.

    The slabs part these cells: a slab has the cells with the coordinate of the code's cell in one column, larger ones
    in the columns before it in the order, and not smaller ones in those after it.
    """
    some = True
    for i in range(len(lanes.cell_shift)):
        j = walk.order[i]
        here = coordinate(lanes, j, code)
        walk.least[j] = here + 1 if i < slab else here
        walk.most[j] = here if i == slab else (1 << lanes.bits[j]) - 1
        walk.at[j] = walk.least[j]
        some &= walk.least[j] <= walk.most[j]
    return some


@inlined
def _count_line(
    lanes: Lanes, rows: Rows, b: Blocks, first: int, last: int, row: Row, deferred: Deferred
) -> tuple[int, int, int]:
    """Count, in adjacent cells, the rows that a row dominates, those that it may by their codes, and all.

    Blocks that follow each other in memory, as nearly all do, are scanned as one.
    """
    certain = ZERO
    maybe = ZERO
    held = ZERO
    start = ZERO
    stop = ZERO  # behind the last row
    end = ZERO  # of the block
    for cell in range(first, last + 1):
        size = b.cell[cell, SIZE]
        if size == 0:
            continue
        here = b.cell[cell, FIRST]
        if here != end:
            sure_ones, some = _count_entries(lanes, rows, b, start, stop, row, deferred)
            certain += sure_ones
            maybe += some
            start = long(here + b.cell[cell, BEGIN])
        stop = long(here + b.cell[cell, BEGIN] + size)
        end = here + room_of(b.cell[cell, KIND])
        held += size
    sure_ones, some = _count_entries(lanes, rows, b, start, stop, row, deferred)
    return certain + sure_ones, maybe + some, held


@inlined
def _count_entries(
    lanes: Lanes, rows: Rows, b: Blocks, start: int, stop: int, row: Row, deferred: Deferred
) -> tuple[int, int]:
    """Count the rows from index ``start`` to ``stop`` that a row dominates, and those that it may by their codes.

    Where these are not the same, the rows are deferred, or looked up at once when there is no more room for that.
    """
    certain = ZERO
    maybe = ZERO
    for first in range(start, stop, PIECE):
        codes = b.code[first : min(stop, first + PIECE)]
        sure_ones, some = _count_piece(lanes, codes, row)
        if some != sure_ones:
            if deferred.size[0] < len(deferred.piece):
                deferred.piece[deferred.size[0]] = 2 * PIECE * first + len(codes)
                deferred.size[0] += 1
            else:
                sure_ones += _decide(lanes, rows, codes, b.slot[first : first + len(codes)], row)
                some = sure_ones
        certain += sure_ones
        maybe += some
    return certain, maybe


@inlined
def _count_piece(lanes: Lanes, codes: Ints, row: Row) -> tuple[int, int]:
    """Count the codes of rows that a row dominates, and of those that it may.

    An entry without a row loses its guards in ``^ guard``, so that it is never counted.
    """
    guard = lanes.guard
    code = row.code
    sure = row.sure
    certain = ZERO
    maybe = ZERO
    for i in range(len(codes)):
        maybe += int(((codes[i] ^ guard) - code) & guard == guard)
        certain += int(((codes[i] ^ guard) - sure) & guard == guard)
    if sure == code:
        same = ZERO
        for i in range(len(codes)):
            same += int(codes[i] == code)
        certain -= same
        maybe -= same
    return certain, maybe


@leaf
def _decide(lanes: Lanes, rows: Rows, codes: Ints, slots: np.ndarray, row: Row) -> int:
    """Count the rows that a row dominates by their values, of those that their codes leave open."""
    guard = lanes.guard
    result = ZERO
    for i in range(len(codes)):
        if covers(codes[i], row.code, guard) and not covers(codes[i], row.sure, guard) and codes[i] != NOT_RANKED:
            result += int(beats(lanes, rows, row.slot, row.code, long(slots[i]), codes[i]))
    return result


@leaf
def _decide_deferred(lanes: Lanes, rows: Rows, b: Blocks, u: Deferred, row: Row) -> int:
    """Count the rows that a row dominates by their values, of the deferred ones, and forget them."""
    guard = lanes.guard
    result = ZERO
    n = ZERO
    for p in range(u.size[0]):
        first = u.piece[p] // (2 * PIECE)
        for at in range(first, first + u.piece[p] % (2 * PIECE)):
            other = b.code[at] ^ guard
            u.entry[n] = at
            n += int(((other - row.code) & guard == guard) & ((other - row.sure) & guard != guard))
        if n > TOGETHER:
            result += _decide_together(lanes, rows, b, u, n, row)
            n = ZERO
    u.size[0] = 0
    return result + _decide_together(lanes, rows, b, u, n, row)


@leaf
def _decide_together(lanes: Lanes, rows: Rows, b: Blocks, u: Deferred, n: int, row: Row) -> int:
    """Count the rows that a row dominates by their values, of those at the first ``n`` entries."""
    d = len(lanes.shift)
    for i in range(n):
        other = long(b.slot[u.entry[i]])
        u.slot[i] = other
        differs = b.code[u.entry[i]] ^ row.code
        column = lanes.column[d - 1]
        for j in range(d - 2, -1, -1):
            column = lanes.column[j] if (differs >> lanes.shift[j]) & lanes.level == 0 else column
        prefetch(rows.columns, column * rows.columns.shape[1] + other)
    result = ZERO
    for i in range(n):
        result += int(beats(lanes, rows, row.slot, row.code, u.slot[i], b.code[u.entry[i]]))
    return result


@kernel
def count_all(lanes: Lanes, rows: Rows, b: Blocks, walk: Walk, scores: np.ndarray) -> None:
    """Write the scores of all ranked rows at their slots.

    Cell by cell: the rows of a cell are compared with the same cells. The codes of a line of these are put side by side
    first, so that each row is compared with many at once.
    """
    d = len(lanes.cell_shift)
    sums = b.count.copy()
    sum_cells(lanes, sums, True)
    codes = np.empty(4096, np.int64)
    slots = np.empty(4096, np.int32)
    for j in range(d):
        walk.order[j] = j
    for cell in range(len(sums)):
        if b.count[cell] == 0:
            continue
        start, stop = span(b, cell)
        code = b.code[start]
        first = cell_behind(lanes, code)
        for at in range(start, stop):
            scores[b.slot[at]] = sums[first] if first >= 0 else 0
        for slab in range(d):
            more = _begin_slab(lanes, code, slab, walk)
            while more:
                line = _cell_at(lanes, walk)
                last = line + walk.most[0] - walk.least[0]
                held = ZERO
                for other in range(line, last + 1):
                    held += b.count[other]
                if held > len(codes):
                    codes = np.empty(2 * held, np.int64)
                    slots = np.empty(2 * held, np.int32)
                if held > 0:
                    _gather(b, line, last, codes, slots)
                    for at in range(start, stop):
                        row = row_of(lanes, b.code[at], b.slot[at])
                        scores[row.slot] += _count_among(lanes, rows, codes[:held], slots[:held], row)
                more = _advance(walk)


@leaf
def _gather(b: Blocks, first: int, last: int, codes: Ints, slots: np.ndarray) -> None:
    """Write the codes and slots of the rows of adjacent cells."""
    n = ZERO
    for cell in range(first, last + 1):
        start, stop = span(b, cell)
        for at in range(start, stop):
            codes[n] = b.code[at]
            slots[n] = b.slot[at]
            n += 1


@inlined
def _count_among(lanes: Lanes, rows: Rows, codes: Ints, slots: np.ndarray, row: Row) -> int:
    """Count the rows that a row dominates, of some that are given by their codes and slots."""
    result = ZERO
    for first in range(0, len(codes), PIECE):
        part = codes[first : min(len(codes), first + PIECE)]
        certain, maybe = _count_piece(lanes, part, row)
        if maybe != certain:
            certain += _decide(lanes, rows, part, slots[first : first + len(part)], row)
        result += certain
    return result
