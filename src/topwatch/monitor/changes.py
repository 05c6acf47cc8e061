"""What a monitor says: entries of an answer, and the changes from one evaluation to the next."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
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


class ObjectEntry(Entry):
    """An object of an answer of IncompleteTopK: as a tuple its id and score, with what is known of it beside.

    Attributes
    ----------
    sources : tuple of str or int
        Those that have a live row of it, in the order of the query.
    current : float
        The score that they make: another word for ``score``.
    best : float
        The best score that it can get while its rows live: sources that are silent so far say the most that the bounds
        allow. Infinite where nothing bounds them.
    """

    sources: tuple[Any, ...] = ()
    best: float = math.inf

    @property
    def current(self) -> float:
        """The score."""
        return self.score

    def __repr__(self) -> str:
        return f"Entry(id={self.id!r}, score={self.score!r})"


class Answer(list[Entry]):
    """The rows of an answer, best first: a list, with a note on how it was made.

    Attributes
    ----------
    note : str
        Empty for an exact answer, else such as ``"approximate: amsa"``.
    """

    def __init__(self, entries: Iterable[Entry] = (), note: str = "") -> None:
        super().__init__(entries)
        self.note = note

    @property
    def exact(self) -> bool:
        """Whether it is the answer, and not near it."""
        return not self.note


class Change(NamedTuple):
    """A row that entered or left an answer; ``at`` is the ordinal of the row after which that holds."""

    at: int
    query: str
    op: Literal["enter", "leave"]
    id: Any
    score: float

    @property
    def note(self) -> str:
        """How the answer was made that the row entered or left: empty for an exact one. No part of the tuple."""
        return ""


class _NotedChange(Change):
    """A change of an answer that is not exact."""

    _note = ""

    @property
    def note(self) -> str:
        return self._note

    def __repr__(self) -> str:
        return f"{Change(*self)!r}"[:-1] + f", note={self.note!r})"


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
        self._notes: list[tuple[int, str]] = []  # how many changes, and their note; empty where none is kept

    def __len__(self) -> int:
        return int(self.at.size)

    def __iter__(self) -> Iterator[Change]:
        ids = self._ids.tolist() if isinstance(self._ids, np.ndarray) else self._ids.to_pylist()
        lines = zip(self.at.tolist(), self._query.tolist(), self._op.tolist(), ids, self.score.tolist(), strict=True)
        notes = itertools.chain.from_iterable(itertools.repeat(note, times) for times, note in self._notes)
        for at, query, op, name, score in lines:
            note = next(notes, "")
            change = (_NotedChange if note else Change)(at, self._names[query], _OPS[op], name, score)  # type: ignore[arg-type]
            if note:
                change._note = note  # type: ignore[attr-defined]
            yield change

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns at, query, op, id and score; and note, of a monitor with ``max_lag``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def words(numbers: np.ndarray, known: list[str]) -> pa.Array:
            return pc.take(pa.array(known or [""], pa.string()), pa.array(numbers, pa.int64()), boundscheck=False)

        ids = pa.array(self._ids) if isinstance(self._ids, np.ndarray) else self._ids
        columns = [
            pa.array(self.at, pa.int64()),
            words(self._query, self._names),
            words(self._op, list(_OPS)),
            ids,
            pa.array(self.score, pa.float64()),
        ]
        names = ["at", "query", "op", "id", "score"]
        if self._notes:
            columns.append(pa.array([note for times, note in self._notes for _ in range(times)], pa.string()))
            names.append("note")
        return pa.table(columns, names=names)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with the columns of :meth:`to_arrow`."""
        return self.to_arrow().to_pandas()

    def noted(self, note: str) -> Changes:
        """Return the changes with a note, where they have none yet."""
        if not self._notes:
            self._notes = [(len(self), note)]
        return self

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

    joined = Changes(
        names, together("at"), together("_query"), together("_op"), ids, together("score"), together("ticks")
    )
    joined._notes = [run for part in parts for run in part._notes]
    return joined
