"""How many rows a row dominates: cells behind its own in every column count whole, those beside it row by row.

With suffix counts (rows in cells not before a cell) the first part is one number, and the count can stop as soon as
its upper bound falls below what is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import BEGIN, FIRST, KIND, SIZE, Blocks, room_of
from topwatch.algorithms.dominating.kernels.codes import GUARD, NOT_RANKED, Lanes, beats, covers, surely
from topwatch.algorithms.dominating.kernels.undecided import PIECE, Undecided, decide, put_aside
from topwatch.core.jit import ZERO, inlined, kernel, leaf, long, prefetch
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Ints

SOME = 4  # cache lines of codes to prefetch
COUNTED, COMPARED = range(2)  # of the counters: scores counted, comparisons of rows


class Walk(NamedTuple):
    """Room for the way through the cells beside a cell, one entry per column."""

    order: Ints  # columns in the order in which their slabs are looked at
    least: Ints
    most: Ints
    at: Ints
    counters: Ints
    undecided: Undecided


@leaf
def suffix_sums(lanes: Lanes, sums: np.ndarray) -> None:
    """Turn counts by cell (int32) into counts of cells not before each cell, in place."""
    total = len(sums)
    line = 1 << lanes.bits[0]
    for first in range(0, total, line):
        more = np.int32(0)
        for at in range(first + line - 1, first - 1, -1):
            more = np.int32(more + sums[at])
            sums[at] = more
    for j in range(1, len(lanes.cell_shift)):
        stride = 1 << lanes.cell_shift[j]
        span = stride << lanes.bits[j]
        for first in range(0, total, span):
            for at in range(first + span - 2 * stride, first - 1, -stride):
                to = sums[at : at + stride]
                more_of = sums[at + stride : at + 2 * stride]
                for i in range(len(to)):
                    to[i] = np.int32(to[i] + more_of[i])


@leaf
def prefix_sums(lanes: Lanes, sums: np.ndarray) -> None:
    """Turn counts by cell (int32) into counts of cells not behind each cell in any column, in place."""
    total = len(sums)
    line = 1 << lanes.bits[0]
    for first in range(0, total, line):
        more = np.int32(0)
        for at in range(first, first + line):
            more = np.int32(more + sums[at])
            sums[at] = more
    for j in range(1, len(lanes.cell_shift)):
        stride = 1 << lanes.cell_shift[j]
        span = stride << lanes.bits[j]
        for first in range(0, total, span):
            for at in range(first + stride, first + span, stride):
                to = sums[at : at + stride]
                more_of = sums[at - stride : at]
                for i in range(len(to)):
                    to[i] = np.int32(to[i] + more_of[i])


@inlined
def coordinate(lanes: Lanes, j: int, code: int) -> int:
    """Return the coordinate of a code's cell along a column."""
    return (code >> (lanes.shift[j] + lanes.coarse[j])) & ((1 << lanes.bits[j]) - 1)


@leaf
def behind(lanes: Lanes, code: int) -> int:
    """Return the first of the cells that lie behind a code's cell in every column, or -1 where there are none."""
    cell = 0
    for j in range(len(lanes.cell_shift)):
        at = coordinate(lanes, j, code) + 1
        if at >> lanes.bits[j]:
            return -1
        cell |= at << lanes.cell_shift[j]
    return cell


@leaf
def count_behind(lanes: Lanes, b: Blocks, code: int, walk: Walk) -> int:
    """Count the rows of the cells behind a code's cell in every column, cell by cell."""
    last = len(lanes.cell_shift) - 1
    for j in range(last + 1):
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
        if not _advance(walk, 1, last):
            return total


@inlined
def _cell_at(lanes: Lanes, walk: Walk) -> int:
    cell = 0
    for j in range(len(walk.at)):
        cell |= walk.at[j] << lanes.cell_shift[j]
    return cell


@inlined
def _advance(walk: Walk, first: int, last: int) -> bool:
    """Go to the next line of cells, the columns from ``first`` to ``last`` turning like the wheels of a counter."""
    j = first
    while j <= last:
        if walk.at[j] < walk.most[j]:
            walk.at[j] += 1
            return True
        walk.at[j] = walk.least[j]
        j += 1
    return False


@leaf
def put_slabs_in_order(lanes: Lanes, code: int, walk: Walk) -> None:
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
    lanes: Lanes, rows: Rows, b: Blocks, code: int, slot: int, most: int, enough: int, close: int, walk: Walk
) -> tuple[int, int]:
    """Count the dominated rows of the cells beside a row's cell.

    Returns the count and an upper bound of the whole score. ``most`` is the bound to start from; once it is below
    ``enough`` the count stops unfinished, and only the bound means something. Rows that their codes leave open are not
    looked up where the bound is below ``close`` with all of them; then, too, only the bound means something.
    """
    d = len(lanes.cell_shift)
    sure = surely(lanes, code)
    result = ZERO
    left_open = ZERO
    walk.undecided.size[0] = 0
    walk.counters[COUNTED] += 1
    for slab in range(d):
        more = _begin_slab(lanes, code, slab, walk)
        following = _cell_at(lanes, walk)
        while more:
            first = following
            last = first + walk.most[0] - walk.least[0]
            more = _advance(walk, 1, d - 1)
            following = _cell_at(lanes, walk)
            _look_ahead(b, following)
            certain, maybe, held = _count_line(lanes, rows, b, first, last, code, sure, slot, walk.undecided)
            walk.counters[COMPARED] += held
            result += certain
            left_open += maybe - certain
            most -= held - maybe
            if most < enough:
                return result, most
    if left_open > 0 and most >= close:
        certain = decide(lanes, rows, b, walk.undecided, code, sure, slot)
        result += certain
        most -= left_open - certain
    return result, most


@inlined
def _look_ahead(b: Blocks, cell: int) -> None:
    """Prefetch the first codes of a cell: those after them follow in memory."""
    at = long(b.cell[cell, FIRST] + b.cell[cell, BEGIN])
    for i in range(SOME):
        prefetch(b.code, min(at + 8 * i, len(b.code) - 1))


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
    lanes: Lanes, rows: Rows, b: Blocks, first: int, last: int, code: int, sure: int, slot: int, undecided: Undecided
) -> tuple[int, int, int]:
    """Count, in cells that follow each other, the rows that a row dominates, those that it may by their codes, and all.

    Blocks that follow each other in memory, as nearly all do, are gone through as one.
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
            sure_ones, some = _count_places(lanes, rows, b, start, stop, code, sure, slot, undecided)
            certain += sure_ones
            maybe += some
            start = long(here + b.cell[cell, BEGIN])
        stop = long(here + b.cell[cell, BEGIN] + size)
        end = here + room_of(b.cell[cell, KIND])
        held += size
    sure_ones, some = _count_places(lanes, rows, b, start, stop, code, sure, slot, undecided)
    return certain + sure_ones, maybe + some, held


@inlined
def _count_places(
    lanes: Lanes, rows: Rows, b: Blocks, start: int, stop: int, code: int, sure: int, slot: int, undecided: Undecided
) -> tuple[int, int]:
    """Count the rows from index ``start`` to ``stop`` that a row dominates, and those that it may by their codes.

    Where these are not the same, the rows are put aside, or looked up at once when there is no more room for that.
    """
    certain = ZERO
    maybe = ZERO
    for first in range(start, stop, PIECE):
        codes = b.code[first : min(stop, first + PIECE)]
        sure_ones, some = _count_piece(lanes, codes, code, sure)
        if some != sure_ones:
            if undecided.size[0] < len(undecided.piece):
                put_aside(undecided, first, len(codes))
            else:
                sure_ones += _decide(lanes, rows, codes, b.slot[first : first + len(codes)], code, sure, slot)
                some = sure_ones
        certain += sure_ones
        maybe += some
    return certain, maybe


@inlined
def _count_piece(lanes: Lanes, codes: Ints, code: int, sure: int) -> tuple[int, int]:
    """Count the codes of rows that a row dominates, and of those that it may.

    An entry without a row loses its guards in ``^ guard``, so that it is never counted.
    """
    guard = lanes.masks[GUARD]
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


@inlined
def _count_among(lanes: Lanes, rows: Rows, codes: Ints, slots: np.ndarray, code: int, sure: int, slot: int) -> int:
    """Count the rows that a row dominates, of some that are given by their codes and slots."""
    result = ZERO
    for first in range(0, len(codes), PIECE):
        part = codes[first : min(len(codes), first + PIECE)]
        certain, maybe = _count_piece(lanes, part, code, sure)
        if maybe != certain:
            certain += _decide(lanes, rows, part, slots[first : first + len(part)], code, sure, slot)
        result += certain
    return result


@leaf
def _decide(lanes: Lanes, rows: Rows, codes: Ints, slots: np.ndarray, code: int, sure: int, slot: int) -> int:
    """Count the rows that a row dominates by their values, of those that their codes leave open."""
    guard = lanes.masks[GUARD]
    result = ZERO
    for i in range(len(codes)):
        if covers(codes[i], code, guard) and not covers(codes[i], sure, guard) and codes[i] != NOT_RANKED:
            result += int(beats(lanes, rows, slot, code, long(slots[i]), codes[i]))
    return result


@kernel
def count_all(lanes: Lanes, rows: Rows, b: Blocks, walk: Walk, scores: np.ndarray) -> None:
    """Write the scores of all ranked rows at their slots.

    Cell by cell: the rows of a cell look at the same cells. The codes of a line of these are put side by side first, so
    that each row is compared with many at once.
    """
    d = len(lanes.cell_shift)
    sums = b.count.copy()
    suffix_sums(lanes, sums)
    near = np.empty(4096, np.int64)
    slots = np.empty(4096, np.int32)
    for j in range(d):
        walk.order[j] = j
    for cell in range(len(sums)):
        if b.count[cell] == 0:
            continue
        start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
        end = start + b.cell[cell, SIZE]
        code = b.code[start]
        first = behind(lanes, code)
        for at in range(start, end):
            scores[b.slot[at]] = sums[first] if first >= 0 else 0
        for slab in range(d):
            more = _begin_slab(lanes, code, slab, walk)
            while more:
                line = _cell_at(lanes, walk)
                last = line + walk.most[0] - walk.least[0]
                held = ZERO
                for other in range(line, last + 1):
                    held += b.count[other]
                if held > len(near):
                    near = np.empty(2 * held, np.int64)
                    slots = np.empty(2 * held, np.int32)
                if held > 0:
                    _gather(b, line, last, near, slots)
                    for at in range(start, end):
                        mine = long(b.slot[at])
                        sure = surely(lanes, b.code[at])
                        scores[mine] += _count_among(lanes, rows, near[:held], slots[:held], b.code[at], sure, mine)
                more = _advance(walk, 1, d - 1)


@leaf
def _gather(b: Blocks, first: int, last: int, codes: Ints, slots: np.ndarray) -> None:
    """Write the codes and slots of the rows of cells that follow each other."""
    n = ZERO
    for cell in range(first, last + 1):
        start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
        for at in range(start, start + b.cell[cell, SIZE]):
            codes[n] = b.code[at]
            slots[n] = b.slot[at]
            n += 1
