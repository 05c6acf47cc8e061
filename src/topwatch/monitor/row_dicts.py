"""Rows as dicts, in the place of a batch that has columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class RowDicts(Mapping[Any, list[Any]]):
    """Rows, each a dict, as a mapping of column to values: None where a row lacks the column.

    Its columns are those of all rows, in the order in which they first occur. A column is gathered when it is read.

    >>> rows = RowDicts([{"id": 1, "x": 5.0}, {"id": 2, "y": 7.0}])
    >>> list(rows), rows["x"], len(rows.rows)
    (['id', 'x', 'y'], [5.0, None], 2)
    """

    def __init__(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        self.rows = rows
        self._names = dict.fromkeys(name for row in rows for name in row)

    def __getitem__(self, name: Any) -> list[Any]:
        return [row.get(name) for row in self.rows]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
