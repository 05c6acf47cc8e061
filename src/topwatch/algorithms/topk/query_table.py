"""The query table: standing queries as arrays that kernels read, at indices that removed queries leave to new ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.core.kernels import scoring as kernels
from topwatch.core.kernels.scoring import Queries
from topwatch.query.queries import Query, Scored, Threshold
from topwatch.query.scores import Score

_KINDS = {
    "linear": kernels.LINEAR,
    "product": kernels.PRODUCT,
    "quadratic": kernels.QUADRATIC,
    "distance": kernels.DISTANCE,
    "expr": kernels.EXPR,
}


class QueryTable:
    """Queries by index; ``queries[index]`` is None where an index is free.

    Adding is O(1) but for the growth of the arrays by doubling; the program of an expression that was removed stays
    until the table is built again.
    """

    def __init__(self) -> None:
        self.queries: list[Scored | None] = []
        self.arrays = _empty(0, 1, 1, 0)
        self._code = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.queries) - len(self._free)

    @property
    def indices(self) -> int:
        """How many indices there are, used or free."""
        return int(self.arrays.kind.size)

    def active(self) -> list[int]:
        """Return the indices in use."""
        return [index for index, query in enumerate(self.queries) if query is not None]

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Write a query at a free index and return the index."""
        assert isinstance(query, Scored), "a query that ranks rows by a score"
        if self._free:
            index = self._free.pop()
        else:
            index = len(self.queries)
            self.queries.append(None)
        program = query.score.expression.program if query.score.expression else ()
        self._make_room(index + 1, len(query.score.columns), len(query.where), self._code + len(program))
        self.queries[index] = query
        self._write(index, query, column_of)
        return index

    def remove(self, index: int) -> None:
        """Free an index."""
        self.queries[index] = None
        self._free.append(index)
        for array in (self.arrays.kind, self.arrays.terms, self.arrays.k, self.arrays.ranges):
            array[index] = 0
        self.arrays.floor[index] = np.inf

    def _write(self, index: int, query: Scored, column_of: Mapping[str, int]) -> None:
        a, score = self.arrays, query.score
        n = len(score.columns)
        a.kind[index] = _KINDS[score.kind]
        a.terms[index] = n
        a.column[index, :n] = [column_of[name] for name in score.columns]
        a.rising[index, :n] = [_rising(score, name) for name in score.columns]
        if score.expression is None:
            a.value[index, :n] = score.coefficients
        else:
            program = score.expression.program
            a.first[index], a.steps[index] = self._code, len(program)
            a.op[self._code : self._code + len(program)] = [op for op, _ in program]
            a.argument[self._code : self._code + len(program)] = [argument for _, argument in program]
            self._code += len(program)
        a.ranges[index] = len(query.where)
        for i, (column, (low, high)) in enumerate(query.where.items()):
            a.where_column[index, i], a.where_low[index, i], a.where_high[index, i] = column_of[column], low, high
        if isinstance(query, Threshold):
            a.k[index] = -1
            a.floor[index] = np.nextafter(query.sign * query.above, np.inf)
        else:
            a.k[index] = query.k
            a.floor[index] = -np.inf

    def _make_room(self, indices: int, terms: int, ranges: int, code: int) -> None:
        a = self.arrays
        have = (a.kind.size, a.column.shape[1], a.where_column.shape[1], a.op.size)
        want = (indices, terms, ranges, code)
        if all(w <= h for w, h in zip(want, have, strict=True)):
            return
        # Doubling keeps many additions cheap; the widths of the matrices are few and grow only to what is needed.
        larger = _empty(
            max(have[0], indices if indices <= have[0] else max(indices, 2 * have[0], 8)),
            max(have[1], terms),
            max(have[2], ranges),
            max(have[3], code if code <= have[3] else 2 * code),
        )
        for old, new in zip(a, larger, strict=True):
            new[tuple(slice(size) for size in old.shape)] = old
        self.arrays = larger

    def _check(self) -> None:
        for index, query in enumerate(self.queries):
            assert (query is not None) == (self.arrays.k[index] != 0)
            if query is not None:
                assert self.arrays.terms[index] == len(query.score.columns)


def _rising(score: Score, column: str) -> int:
    return int(column in score.increasing) - int(column in score.decreasing)


def _empty(indices: int, terms: int, ranges: int, code: int) -> Queries:
    def ints(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    def floats(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float64)

    return Queries(
        kind=ints(indices),
        terms=ints(indices),
        column=ints(indices, terms),
        value=floats(indices, terms),
        rising=ints(indices, terms),
        first=ints(indices),
        steps=ints(indices),
        op=ints(code),
        argument=floats(code),
        ranges=ints(indices),
        where_column=ints(indices, ranges),
        where_low=floats(indices, ranges),
        where_high=floats(indices, ranges),
        k=ints(indices),
        floor=np.full(indices, np.inf),
        values=floats(terms),
        stack=floats(kernels.STACK),
        keys=floats(kernels.BLOCK),
        rows=ints(kernels.BLOCK),
    )
