"""Why a row is in an answer or not, in numbers and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from topwatch.monitor.changes import Entry
from topwatch.query.queries import Dominating, FrequentSkyline, Preferring, Query, Scored, Skyline, Threshold

NAMED = 5  # dominators that are named


@dataclass(frozen=True)
class Why:
    """Where a row stands in a query's answer, as of the last evaluation.

    Attributes
    ----------
    id, query : the row and the query's name
    live : whether the row is in the window
    answer : whether it is in the answer
    score : its score, None when it has none
    rank : its rank among the rows the query ranks, None when it is not ranked, and for rows outside the answer of a
        query that counts dominated rows, since that would need the scores of all
    threshold : the score that it has to reach, None when any will do
    dominators : the rows of the answer that come before it; for a query that counts dominated rows the first few rows
        that dominate it, newest first; for a skyline the first few of its rows that dominate it
    dominated_by : how many rows dominate it, None for queries that do not ask
    reason : all that in a sentence
    """

    id: Any
    query: str
    live: bool
    answer: bool
    score: float | None
    rank: int | None
    threshold: float | None
    dominators: list[Entry] = field(default_factory=list)
    reason: str = ""
    dominated_by: int | None = None

    def __str__(self) -> str:
        return self.reason


def explain_row(
    id: Any,
    name: str,
    query: Scored | Preferring,
    columns: dict[str, np.ndarray],
    ticks: np.ndarray,
    row: int | None,
    answer: list[Entry],
    names: list[Any],
) -> Why:
    """Explain the standing of the live row number ``row`` (None: no live row has the id); ``names`` are all ids."""
    threshold = _threshold(query, answer)
    if row is None:
        return Why(id, name, False, False, None, None, threshold, reason=f"No live row has the id {id!r}.")
    missing = [column for column in query.columns if np.isnan(columns[column][row])]
    if missing:
        reason = f"{id!r} is not ranked: it has no value for {', '.join(missing)}."
        return Why(id, name, True, False, None, None, threshold, reason=reason)
    if isinstance(query, Dominating):
        return _explain_dominating(id, name, query, columns, ticks, row, answer, names)
    if isinstance(query, Skyline | FrequentSkyline):
        return _explain_skyline(id, name, query, columns, row, answer, names)
    scores = query.score.evaluate(columns)
    score = float(scores[row])
    for column, (low, high) in query.where.items():
        value = columns[column][row]
        if not low <= value <= high:
            reason = f"{id!r} is not ranked: its {column} is {value:g}, outside {low:g} to {high:g}."
            return Why(id, name, True, False, score, None, threshold, reason=reason)
    if np.isnan(score):
        reason = f"{id!r} is not ranked: its score is not a number."
        return Why(id, name, True, False, None, None, threshold, reason=reason)
    ranked = ~np.isnan(scores)
    for column, (low, high) in query.where.items():
        ranked &= (columns[column] >= low) & (columns[column] <= high)
    keys = -scores if query.smaller_is_better else scores
    ahead = ranked & ((keys > keys[row]) | ((keys == keys[row]) & (ticks > ticks[row])))
    rank = int(ahead.sum()) + 1
    word = "below" if query.smaller_is_better else "above"
    if isinstance(query, Threshold):
        inside = bool(keys[row] > (-query.above if query.smaller_is_better else query.above))
        reason = f"{id!r} scores {score:g}, {'' if inside else 'not '}{word} {query.above:g}."
        return Why(id, name, True, inside, score, rank, query.above, reason=reason)
    inside = rank <= query.k
    dominators = answer[: rank - 1]
    if inside:
        reason = f"{id!r} scores {score:g} and is number {rank} of {query.k}."
    else:
        reason = (
            f"{id!r} scores {score:g} and is number {rank}: {threshold:g} is needed to be among the best {query.k}."
        )
    return Why(id, name, True, inside, score, rank, threshold, dominators, reason)


def _explain_dominating(
    id: Any,
    name: str,
    query: Dominating,
    columns: dict[str, np.ndarray],
    ticks: np.ndarray,
    row: int,
    answer: list[Entry],
    names: list[Any],
) -> Why:
    """Explain a row by what it dominates and what dominates it."""
    threshold = _threshold(query, answer)
    outside, ranked = _ranked(query, columns, row)
    if outside:
        return Why(id, name, True, False, None, None, threshold, reason=f"{id!r} {outside}")
    below, above = _dominance(query, columns, ranked, row)
    score = float(below.sum())
    newest = np.flatnonzero(above)[::-1]
    first = [Entry(names[i], float(_dominance(query, columns, ranked, i)[0].sum())) for i in newest[:NAMED].tolist()]
    rank = sum(1 for entry in answer if entry.score > score)
    inside = threshold is None or score > threshold
    if not inside and score == threshold:
        # Of equal scores the newest are in: as many as the answer has, and this row if it is one of them.
        equal = [entry.id for entry in answer if entry.score == score]
        inside = id in equal
        rank += equal.index(id) if inside else 0
    elif inside:
        rank = next((i for i, entry in enumerate(answer) if entry.id == id and entry.score == score), rank)
    many = f"{score:g} {'row' if score == 1 else 'rows'}"
    if inside:
        reason = f"{id!r} dominates {many} and is number {rank + 1} of {query.k}"
    else:
        reason = f"{id!r} dominates {many}: {threshold:g} are needed to be among the best {query.k}"
    listed = ", ".join(repr(entry.id) for entry in first) + (" ..." if newest.size > len(first) else "")
    reason += (
        f"; {newest.size} {'row dominates' if newest.size == 1 else 'rows dominate'} it: {listed}."
        if first
        else "; no row dominates it."
    )
    return Why(id, name, True, inside, score, rank + 1 if inside else None, threshold, first, reason, int(newest.size))


def _explain_skyline(
    id: Any,
    name: str,
    query: Skyline | FrequentSkyline,
    columns: dict[str, np.ndarray],
    row: int,
    answer: list[Entry],
    names: list[Any],
) -> Why:
    """Explain a row by what dominates it."""
    threshold = _threshold(query, answer)
    outside, ranked = _ranked(query, columns, row)
    if outside:
        return Why(id, name, True, False, None, None, threshold, reason=f"{id!r} {outside}")
    above = np.flatnonzero(_dominance(query, columns, ranked, row)[1])[::-1]
    # Each dominated row is dominated by one of the skyline too; those tell the most.
    first: list[Entry] = []
    for i in above.tolist():
        if len(first) < NAMED and not _dominance(query, columns, ranked, i)[1].any():
            first.append(Entry(names[i], 0.0))
    listed = ", ".join(repr(entry.id) for entry in first)
    many = f"{above.size} {'row dominates' if above.size == 1 else 'rows dominate'} it, of the skyline {listed}"
    if isinstance(query, Skyline):
        inside = above.size == 0
        reason = (
            f"{id!r} is in the skyline: no row dominates it." if inside else f"{id!r} is not in the skyline: {many}."
        )
        return Why(id, name, True, inside, 0.0 if inside else None, None, threshold, first, reason, above.size)
    share = next((entry.score for entry in answer if entry.id == id), None)
    often = f"in less than {query.share:.4g}" if share is None else f"in {share:.4g}"
    now = f"now {many}" if first else "now no row dominates it"
    reason = f"{id!r} was in the skyline {often} of the snapshots, of {query.snapshots:,} at most; {now}."
    return Why(id, name, True, share is not None, share, None, threshold, first, reason, above.size)


def _ranked(query: Preferring, columns: dict[str, np.ndarray], row: int) -> tuple[str, np.ndarray]:
    """Say why a row is not ranked, or nothing, and tell which rows are."""
    ranked = np.logical_and.reduce([~np.isnan(columns[column]) for column in query.columns])
    for column, (low, high) in query.where.items():
        value = columns[column][row]
        if not low <= value <= high:
            return f"is not ranked: its {column} is {value:g}, outside {low:g} to {high:g}.", ranked
        ranked &= (columns[column] >= low) & (columns[column] <= high)
    return "", ranked


def _dominance(
    query: Preferring, columns: dict[str, np.ndarray], ranked: np.ndarray, row: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tell which ranked rows a row dominates, and which dominate it."""
    no_better, no_worse = ranked.copy(), ranked.copy()
    for column, better in query.prefer.items():
        values = columns[column] if better == "min" else -columns[column]
        no_better &= values >= values[row]
        no_worse &= values <= values[row]
    return no_better & ~no_worse, no_worse & ~no_better


def _threshold(query: Query, answer: list[Entry]) -> float | None:
    if isinstance(query, Threshold):
        return query.above
    if isinstance(query, Skyline | FrequentSkyline):
        return query.share if isinstance(query, FrequentSkyline) else None
    return answer[-1].score if len(answer) >= query.k else None
