"""The keys of all rows for one query, in a table that is there as a whole."""

from __future__ import annotations

from topwatch.core.jit import kernel
from topwatch.core.kernels.scoring import BLOCK, Floats, Queries, score_run


@kernel
def write_keys(table: Queries, columns: Floats, keys: Floats) -> None:
    """Write the key of each row for the table's first query: larger is better, NaN is not ranked."""
    for start in range(0, len(keys), BLOCK):
        score_run(table, 0, columns, start, keys[start : min(len(keys), start + BLOCK)])
