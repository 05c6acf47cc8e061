"""The saved arrays of a grouped engine, checked before they are loaded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.core.kernels.scoring import Ints
from topwatch.core.saved_state import Saved


def checked_engine(arrays: Mapping[str, np.ndarray], columns: int, timed: bool, k: Ints) -> dict[str, np.ndarray]:
    """Return the arrays of a grouped engine with so many columns and queries with these k, or refuse them.

    ``timed``: windows span a time, and rows have one.
    """
    saved = Saved(arrays, "groups: ")
    tick = saved.ints("tick", 1, low=0)
    ticks = saved.ints("ticks", None, low=1, high=int(tick[0]))
    rows = ticks.size
    count = saved.ints("count", None, low=0, high=rows)
    groups = count.size
    saved.expect(int(count.sum()) == rows, "count", f"{rows} rows in all", int(count.sum()))
    end = saved.ints("end", groups, low=0)
    saved.expect(np.all(end >= count), "end", "at least as many rows as are held")
    saved.expect(np.unique(ticks).size == rows, "ticks", "numbers that differ")
    times = saved.ints("times", rows if timed else 0, low=-(2**63), high=2**63 - 1)
    same = np.ones(max(0, rows - 1), np.bool_)  # whether a row and the next are of one group
    borders = np.cumsum(count)
    same[borders[(borders > 0) & (borders < rows)] - 1] = False
    saved.expect(np.all((ticks[1:] > ticks[:-1]) | ~same), "ticks", "numbers that rise within a group")
    saved.expect(not timed or np.all((times[1:] >= times[:-1]) | ~same), "times", "times that rise within a group")
    group_of = np.repeat(np.arange(groups), count)
    return {
        "tick": tick,
        "count": count,
        "end": end,
        "columns": saved.floats("columns", columns, rows, nan=True),
        "ticks": ticks,
        "times": times,
        **_checked_answers(saved, groups, k, ticks, group_of),
        "stale": saved.ints("stale", groups * k.size, low=0, high=1),
    }


def _checked_answers(saved: Saved, groups: int, k: Ints, ticks: Ints, group_of: Ints) -> dict[str, np.ndarray]:
    """Check that answers have live rows of their groups, best first."""
    sizes = saved.ints("answer sizes", groups * k.size, low=0)
    saved.expect(np.all(sizes <= np.tile(k, groups)), "answer sizes", "at most k rows each")
    keys = saved.floats("answer keys", groups * int(k.sum()), nan=True)
    seqs = saved.ints("answer seqs", groups * int(k.sum()), low=-(2**63), high=2**63 - 1)
    run = np.repeat(np.arange(groups * k.size), np.tile(k, groups))
    rank = np.arange(run.size) - np.repeat(np.cumsum(np.tile(k, groups)) - np.tile(k, groups), np.tile(k, groups))
    used = np.flatnonzero(rank < sizes[run])
    run, key, seq = run[used], keys[used], seqs[used]
    order = np.argsort(ticks)
    at = np.minimum(np.searchsorted(ticks[order], seq), max(0, ticks.size - 1))
    live = ticks.size > 0 and np.all(ticks[order][at] == seq)
    saved.expect(seq.size == 0 or live, "answer seqs", "ticks of rows that are held")
    mine = seq.size == 0 or np.all(group_of[order][at] == run // max(1, k.size))
    saved.expect(mine, "answer seqs", "ticks of rows of the same group")
    same = run[1:] == run[:-1]
    after = (key[:-1] > key[1:]) | ((key[:-1] == key[1:]) & (seq[:-1] > seq[1:]))
    saved.expect(not np.isnan(key).any() and np.all(after | ~same), "answer keys", "numbers, best first")
    return {"answer sizes": sizes, "answer keys": keys, "answer seqs": seqs}
