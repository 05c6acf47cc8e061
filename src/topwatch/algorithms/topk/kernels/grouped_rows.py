"""Rows that come one by one into the answers of a group: one enters, one leaves, and nothing is compared.

Where a group is evaluated after each of its rows and none of a run expires within a block, the answer is the beginning
of the run before and after every row. So what a row changes is known when it has its rank, and what was last reported
is brought up to date once for all rows of the block.
"""

from __future__ import annotations

from typing import NamedTuple

from topwatch.algorithms.topk.kernels.report import Answers
from topwatch.algorithms.topk.kernels.run_updates import admit
from topwatch.algorithms.topk.kernels.sorted_runs import Runs
from topwatch.core.jit import ZERO, inlined
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, write
from topwatch.core.kernels.scoring import Floats, Ints, Queries, inside


class Turns(NamedTuple):
    """The evaluations of one group in a batch."""

    at: Ints  # ordinal of the last row
    taken: Ints  # rows of the batch before it
    heads: Ints  # tick of the first live row: at the evaluation before the batch, then per evaluation
    of_row: Ints  # for each row of the batch the first evaluation that sees it
    each: bool  # every row is evaluated


class Block(NamedTuple):
    """Rows of one group, and the evaluations that they bring: both from a first one to before a last one."""

    group: int
    base: int  # first row of the group in the batch
    start: int
    stop: int
    turn: int
    last: int
    tick: int  # of its first row
    columns: Floats  # its values: (columns, rows), and room behind them


@inlined
def all_stay(turns: Turns, block: Block, row: int) -> bool:
    """Tell whether every row is evaluated, and none from ``row`` on expires within its block."""
    return turns.each and block.tick + row - block.start >= turns.heads[block.last]


@inlined
def admit_singly(
    table: Queries,
    q: int,
    turns: Turns,
    block: Block,
    first: int,
    runs: Runs,
    run: int,
    answers: Answers,
    log: Log,
    hits: Ints,
    start: int,
) -> None:
    """Take in the rows that were found to reach the threshold of a run that has nothing to report.

    None of them and of the run may expire within the block; the log must have room for two lines of each. They are
    those of ``hits`` from ``start`` on, which count from row ``first``.
    """
    k = table.k[q]
    index = runs.first[run]
    best = k
    for t in range(start, len(hits)):
        row = first - block.start + hits[t]
        key = table.keys[t]
        if key >= runs.threshold[run] and inside(table, q, block.columns, row):
            j = turns.of_row[block.start - block.base + row]
            full = runs.size[run] >= k
            last_key = runs.key[index + k - 1]
            last_seq = runs.seq[index + k - 1]
            rank = admit(runs, run, k, key, block.tick + row, ZERO, turns.heads[j])
            if rank < k:
                if full:
                    write(log, j, q, LEAVE, last_seq, last_key)
                write(log, j, q, ENTER, block.tick + row, key)
                best = min(best, rank)
    if best < k:
        a = answers.first[run]
        new = min(k, runs.size[run])
        for i in range(best, new):
            answers.key[a + i] = runs.key[index + i]
            answers.seq[a + i] = runs.seq[index + i]
        answers.size[run] = new
