"""AHBA: ADA that believes a cell's sample before it counts a row.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011, section 7.1. Approximate. When a
row's bound reaches the k-th score, the mean score of a random sample of its cell's rows stands for the row's score if
it is smaller. With s = ln(1/(1-δ)) / (2 ε²) rows (Hoeffding), the sample's mean is below the mean of the cell by more
than ε times the range of scores in the cell with a probability of at most 1-δ. The sampled rows' scores are kept
exactly; those that expire are replaced by others drawn from the cell.

What is bounded is the error of the *mean*: a row that is much better than its cell's mean can be missed. The mean
stands for the *other* rows of a cell: a sampled row's score is known, and it enters the answer by that. In a cell with
fewer rows than s all are sampled, and nothing is missed.

A cell is sampled when a row in it would have to be counted, its best possible score (the rows in cells not before it)
reaches the k-th, and it does not lie behind a sampled cell. The sampled rows that are at least as good as a row bound
its score, exactly, as reference rows do; a row behind a sampled cell that this does not settle is counted.
"""

from __future__ import annotations

import math

from topwatch.algorithms.dominating.ada import candidates
from topwatch.algorithms.dominating.engine import Intervals
from topwatch.core.per_query_engine import Design


def design(
    cells: int | None = None,
    near: int | None = None,
    maxcand: int | None = None,
    kept: float = 1.0,
    epsilon: float = 0.1,
    delta: float = 0.9,
) -> Design:
    """Return what makes the contest of a query."""
    samples = sample_size(epsilon, delta)
    return Intervals(True, candidates(maxcand), near, suffix=True, kept=kept, samples=samples, cells=cells).design()


def sample_size(epsilon: float, delta: float) -> int:
    """Return how many rows of a cell are sampled, equation (11).

    >>> sample_size(0.1, 0.9)
    116
    """
    return math.ceil(math.log(1 / (1 - delta)) / (2 * epsilon * epsilon))
