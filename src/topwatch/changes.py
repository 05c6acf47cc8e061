"""What a monitor says: entries of an answer, and the changes from one judgement to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_OPS = ("leave", "enter")


class Entry(NamedTuple):
    """One row of an answer."""

    id: Any
    score: float


class Change(NamedTuple):
    """A row that entered or left an answer; ``at`` is the ordinal of the row after which that holds."""

    at: int
    query: str
    op: Literal["enter", "leave"]
    id: Any
    score: float


class Changes:
    """Changes in order, as arrays; iterating makes one :class:`Change` at a time.

    Examples
    --------
    >>> import topwatch as tw
    >>> m = tw.Monitor(tw.TopK(k=1, score=tw.linear(x=1.0), name="top"), window=tw.last(2))
    >>> list(m.push({"id": [7, 8], "x": [1.0, 3.0]}))  # doctest: +NORMALIZE_WHITESPACE
    [Change(at=1, query='top', op='enter', id=7, score=1.0),
     Change(at=2, query='top', op='leave', id=7, score=1.0),
     Change(at=2, query='top', op='enter', id=8, score=3.0)]
    """

    def __init__(self, names: list[str], at: Any, query: Any, op: Any, ids: Any, score: Any, ticks: Any) -> None:
        self._names = names
        self.at: np.ndarray = at
        self._query: np.ndarray = query  # number in names
        self._op: np.ndarray = op
        self._ids = ids
        self.score: np.ndarray = score
        self.ticks: np.ndarray = ticks  # of rows with equal scores the one with the larger tick is newer

    def __len__(self) -> int:
        return int(self.at.size)

    def __iter__(self) -> Iterator[Change]:
        ids = self._ids.tolist() if isinstance(self._ids, np.ndarray) else self._ids.to_pylist()
        lines = zip(self.at.tolist(), self._query.tolist(), self._op.tolist(), ids, self.score.tolist(), strict=True)
        for at, query, op, name, score in lines:
            yield Change(at, self._names[query], _OPS[op], name, score)  # type: ignore[arg-type]

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns at, query, op, id and score."""
        import pyarrow as pa

        def words(numbers: np.ndarray, known: list[str]) -> pa.Array:
            return pa.array(known or [""], pa.string()).take(pa.array(numbers, pa.int64()))

        ids = pa.array(self._ids) if isinstance(self._ids, np.ndarray) else self._ids
        columns = [
            pa.array(self.at, pa.int64()),
            words(self._query, self._names),
            words(self._op, list(_OPS)),
            ids,
            pa.array(self.score, pa.float64()),
        ]
        return pa.table(columns, names=["at", "query", "op", "id", "score"])

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with the columns at, query, op, id and score."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        return f"<Changes: {len(self):,} in {len(np.unique(self._query)):,} queries>"


def join(names: list[str], parts: list[Changes]) -> Changes:
    """Put the changes of several steps together."""
    parts = [part for part in parts if len(part)]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.empty(0, np.int64)
        return Changes(names, none, none, none, none, np.empty(0), none)
    if isinstance(parts[0]._ids, np.ndarray):
        ids: Any = np.concatenate([part._ids for part in parts])
    else:
        import pyarrow as pa

        ids = pa.concat_arrays([part._ids for part in parts])

    def together(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    return Changes(
        names, together("at"), together("_query"), together("_op"), ids, together("score"), together("ticks")
    )
