"""Steps of a window, cut between rows: where something has to be done after one row and before the next."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from topwatch.core.kernels.rows import Step
from topwatch.core.kernels.scoring import Ints


class Piece(NamedTuple):
    """Some rows of a step, the evaluations that follow them, and whether it begins at one of the cuts."""

    start: int
    stop: int
    step: Step  # without the slots of its arrivals
    cut: bool


def cut_step(step: Step, rows: int, indices: Ints) -> Iterator[Piece]:
    """Yield the pieces of a step of so many rows that begin at the start and at each of some indices, in order.

    An evaluation goes with the row that it follows; one before all rows with the first piece, which has no rows where
    the first cut is before them.
    """
    edges = [0, *indices.tolist(), rows]
    evaluated = 0
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        until = int(np.searchsorted(step.arrivals, stop, side="right")) if stop < rows else step.at.size
        part = slice(evaluated, until)
        piece = Step(
            step.arrived[:0],
            step.expired[:0],
            step.at[part],
            step.moment[part],
            step.arrivals[part] - start,
            step.heads[evaluated : until + 1],
            step.expiries[part],
        )
        yield Piece(start, stop, piece, cut=number > 0)
        evaluated = until
