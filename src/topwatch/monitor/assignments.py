"""Assignments: which engine serves each query, and in which order queries were added."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from topwatch.monitor.planner import Choice
from topwatch.query.queries import Query
from topwatch.query.windows import Window

if TYPE_CHECKING:
    from topwatch.core.engine import Engine

_OUT_OF_ORDER = 2**62


@dataclass
class Assignment:
    """A query and where it is served."""

    query: Query
    name: str
    engine: Engine
    index: int
    choice: Choice
    number: int = -1


class Assignments:
    """Numbers queries in the order of their adding. Adding is O(1) amortised."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.signs = np.ones(8)  # -1 for distances, whose keys are negative
        self._numbers: dict[int, np.ndarray] = {}  # by engine: index to number
        self._last: dict[int, int] = {}  # by engine: the last index given, or _OUT_OF_ORDER

    def add(self, assigned: Assignment) -> None:
        """Give a query the next number."""
        assigned.number = len(self.names)
        self.names.append(assigned.name)
        self.signs = _with_room(self.signs, assigned.number)
        self.signs[assigned.number] = -1.0 if assigned.query.smaller_is_better else 1.0
        self.move(assigned)

    def move(self, assigned: Assignment) -> None:
        """Note where a query is served now; it keeps its number."""
        engine = id(assigned.engine)
        numbers = _with_room(self._numbers.get(engine, np.zeros(8, np.int64)), assigned.index)
        numbers[assigned.index] = assigned.number
        self._numbers[engine] = numbers
        in_order = assigned.index > self._last.get(engine, -1)
        self._last[engine] = assigned.index if in_order else _OUT_OF_ORDER

    def numbers(self, engine: Engine, indices: np.ndarray) -> np.ndarray:
        """Return the numbers of an engine's queries."""
        numbers: np.ndarray = self._numbers[id(engine)][indices]
        return numbers

    def in_order(self, engine: Engine) -> bool:
        """Tell whether an engine's changes come in the order of the numbers."""
        return engine.in_order and self._last[id(engine)] != _OUT_OF_ORDER


def _with_room(array: np.ndarray, index: int) -> np.ndarray:
    if index < array.size:
        return array
    larger: np.ndarray = np.ones(index + 1 + array.size, array.dtype)
    larger[: array.size] = array
    return larger


def explained(window: Window, assigned: Collection[Assignment]) -> str:
    """Say which algorithm serves which query, why, and how rows find it."""
    number = len(assigned)
    lines = [f"{number:,} {'query' if number == 1 else 'queries'} over the {window}"]
    how = {True: "; rows find it by a grid", False: "; it looks at every row", None: ""}
    lines += [f"{s.name}: {s.choice.algorithm} – {s.choice.reason}{how[s.engine.indexed()]}" for s in assigned]
    return "\n".join(lines)
