"""Why a row is in an answer or not, in numbers and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from topwatch.changes import Entry
from topwatch.queries import Query, Threshold


@dataclass(frozen=True)
class Why:
    """Where a row stands in a query's answer, as of the last judgement.

    Attributes
    ----------
    id, query : the row and the query's name
    live : whether the row is in the window
    answer : whether it is in the answer
    score : its score, None when it has none
    rank : its place among the rows the query ranks, None when it is not ranked
    bar : the score that it has to reach, None when any will do
    dominators : the rows of the answer that come before it
    reason : all that in a sentence
    """

    id: Any
    query: str
    live: bool
    answer: bool
    score: float | None
    rank: int | None
    bar: float | None
    dominators: list[Entry] = field(default_factory=list)
    reason: str = ""

    def __str__(self) -> str:
        return self.reason


def explain_row(
    id: Any,
    name: str,
    query: Query,
    columns: dict[str, np.ndarray],
    ticks: np.ndarray,
    row: int | None,
    answer: list[Entry],
) -> Why:
    """Explain the standing of the live row number ``row`` (None: no live row has the id)."""
    bar = _bar(query, answer)
    if row is None:
        return Why(id, name, False, False, None, None, bar, reason=f"No live row has the id {id!r}.")
    missing = [column for column in query.columns if np.isnan(columns[column][row])]
    if missing:
        reason = f"{id!r} is not ranked: it has no value for {', '.join(missing)}."
        return Why(id, name, True, False, None, None, bar, reason=reason)
    scores = query.score.evaluate(columns)
    score = float(scores[row])
    for column, (low, high) in query.where.items():
        value = columns[column][row]
        if not low <= value <= high:
            reason = f"{id!r} is not ranked: its {column} is {value:g}, outside {low:g} to {high:g}."
            return Why(id, name, True, False, score, None, bar, reason=reason)
    if np.isnan(score):
        reason = f"{id!r} is not ranked: its score is not a number."
        return Why(id, name, True, False, None, None, bar, reason=reason)
    ranked = ~np.isnan(scores)
    for column, (low, high) in query.where.items():
        ranked &= (columns[column] >= low) & (columns[column] <= high)
    keys = -scores if query.score.smaller_is_better else scores
    ahead = ranked & ((keys > keys[row]) | ((keys == keys[row]) & (ticks > ticks[row])))
    rank = int(ahead.sum()) + 1
    word = "below" if query.score.smaller_is_better else "above"
    if isinstance(query, Threshold):
        inside = bool(keys[row] > (-query.above if query.score.smaller_is_better else query.above))
        reason = f"{id!r} scores {score:g}, {'' if inside else 'not '}{word} {query.above:g}."
        return Why(id, name, True, inside, score, rank, query.above, reason=reason)
    inside = rank <= query.k
    dominators = answer[: rank - 1]
    if inside:
        reason = f"{id!r} scores {score:g} and is number {rank} of {query.k}."
    else:
        reason = f"{id!r} scores {score:g} and is number {rank}: {bar:g} is needed to be among the best {query.k}."
    return Why(id, name, True, inside, score, rank, bar, dominators, reason)


def _bar(query: Query, answer: list[Entry]) -> float | None:
    if isinstance(query, Threshold):
        return query.above
    return answer[-1].score if len(answer) >= query.k else None
