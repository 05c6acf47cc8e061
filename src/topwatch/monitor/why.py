"""Why a row or an object is in an answer or not, in numbers and in a sentence; and what else is known of objects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from topwatch.monitor.changes import Answer, Entry, ObjectEntry
from topwatch.query.incomplete_topk import IncompleteTopK
from topwatch.query.queries import Dominating, FrequentSkyline, Preferring, Query, Scored, Skyline, Threshold

if TYPE_CHECKING:
    from topwatch.core.arrays import Ints
    from topwatch.monitor.serving import Assignment, Line

NAMED = 5  # dominators that are named
_MISSED = ", but is missing in the answer, which is approximate"


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


class LiveRows(NamedTuple):
    """The live rows of a window, column by column."""

    ids: list[Any]
    ticks: np.ndarray
    columns: dict[str, np.ndarray]


def explain_row(
    id: Any, name: str, query: Scored | Preferring, rows: LiveRows, row: int | None, lines: Sequence[Line]
) -> Why:
    """Explain a live row, given by its index, None where no live row has the id; ``lines`` are the answer."""
    answer = [Entry(id, score) for id, score, _ in lines]
    why = Why(id, name, row is not None, False, None, None, _threshold(query, answer))
    if row is None:
        return replace(why, reason=f"No live row has the id {id!r}.")
    missing = [column for column in query.columns if np.isnan(rows.columns[column][row])]
    if missing:
        return replace(why, reason=f"{id!r} is not ranked: it has no value for {', '.join(missing)}.")
    outside, ranked = _ranked(query, rows.columns, row)
    outside = f"{id!r} is not ranked: {outside}." if outside else ""
    # What is in the answer is what was reported: an approximate one is not what the rows of the window make.
    ticks = [tick for _, _, tick in lines]
    index = ticks.index(rows.ticks[row]) if rows.ticks[row] in ticks else None
    why = replace(why, answer=index is not None)
    if not isinstance(query, Preferring):
        return _explain_score(why, query, rows, row, lines, ranked, outside)
    if outside:
        return replace(why, reason=outside)
    if isinstance(query, Dominating):
        return _explain_dominating(why, query, rows, row, index, ranked)
    return _explain_skyline(why, query, rows, row, answer, ranked)


def _explain_score(
    why: Why, query: Scored, rows: LiveRows, row: int, lines: Sequence[Line], ranked: np.ndarray, outside: str
) -> Why:
    """Explain a row by its score."""
    scores = query.score.evaluate(rows.columns)
    score = float(scores[row])
    if outside:
        return replace(why, score=score, reason=outside)
    if np.isnan(score):
        return replace(why, reason=f"{why.id!r} is not ranked: its score is not a number.")
    ranked &= ~np.isnan(scores)
    keys = -scores if query.smaller_is_better else scores
    better = ranked & ((keys > keys[row]) | ((keys == keys[row]) & (rows.ticks > rows.ticks[row])))
    rank = int(better.sum()) + 1
    if isinstance(query, Threshold):
        word = "below" if query.smaller_is_better else "above"
        reason = f"{why.id!r} scores {score:g}, {'' if why.answer else 'not '}{word} {query.above:g}."
        return replace(why, score=score, rank=rank, reason=reason)
    before = set(rows.ticks[better].tolist())
    first = [Entry(id, score) for id, score, tick in lines if tick in before]
    rank = len(first) + 1 if why.answer else rank
    reason = f"{why.id!r} scores {score:g} and is number {rank}"
    if why.answer:
        reason += f" of {query.k}."
    else:
        last = -np.inf if why.threshold is None else -why.threshold if query.smaller_is_better else why.threshold
        threshold = why.threshold if keys[row] <= last else None  # of an approximate answer it may be passed
        reason += (_MISSED if rank <= query.k else _needed(threshold, query.k)) + "."
    return replace(why, score=score, rank=rank, dominators=first, reason=reason)


def _needed(threshold: float | None, k: int, verb: str = "is") -> str:
    """Say what a row or an object outside the answer lacks."""
    return (
        f": not among the best {k}" if threshold is None else f": {threshold:g} {verb} needed to be among the best {k}"
    )


def _explain_dominating(
    why: Why, query: Dominating, rows: LiveRows, row: int, index: int | None, ranked: np.ndarray
) -> Why:
    """Explain a row by what it dominates and what dominates it."""
    below, above = _dominance(query, rows.columns, ranked, row)
    score, id = float(below.sum()), why.id
    newest = np.flatnonzero(above)[::-1]
    first = [
        Entry(rows.ids[i], float(_dominance(query, rows.columns, ranked, i)[0].sum())) for i in newest[:NAMED].tolist()
    ]
    reason = f"{id!r} dominates {score:g} {'row' if score == 1 else 'rows'}"
    if index is not None:
        reason += f" and is number {index + 1} of {query.k}"
    else:
        missed = why.threshold is None or score > why.threshold
        reason += _MISSED if missed else _needed(why.threshold, query.k, "are")
    more = " ..." if newest.size > len(first) else ""
    reason += f"; {_counted(newest.size)} it: {_listed(first)}{more}." if first else "; no row dominates it."
    rank = index + 1 if index is not None else None
    return replace(why, score=score, rank=rank, dominators=first, reason=reason, dominated_by=int(newest.size))


def _explain_skyline(
    why: Why, query: Skyline | FrequentSkyline, rows: LiveRows, row: int, answer: list[Entry], ranked: np.ndarray
) -> Why:
    """Explain a row by what dominates it."""
    above = np.flatnonzero(_dominance(query, rows.columns, ranked, row)[1])[::-1]
    # Each dominated row is dominated by one of the skyline too; those tell the most.
    first: list[Entry] = []
    for i in above.tolist():
        if len(first) < NAMED and not _dominance(query, rows.columns, ranked, i)[1].any():
            first.append(Entry(rows.ids[i], 0.0))
    many = f"{_counted(above.size)} it, of the skyline {_listed(first)}"
    why = replace(why, dominators=first, dominated_by=above.size)
    if isinstance(query, Skyline):
        state = "is in the skyline: no row dominates it." if why.answer else f"is not in the skyline: {many}."
        return replace(why, score=0.0 if why.answer else None, reason=f"{why.id!r} {state}")
    share = next((entry.score for entry in answer if entry.id == why.id), None)
    often = f"in less than {query.share:.4g}" if share is None else f"in {share:.4g}"
    now = f"now {many}" if first else "now no row dominates it"
    reason = f"{why.id!r} was in the skyline {often} of the snapshots, of {query.snapshots:,} at most; {now}."
    return replace(why, score=share, reason=reason)


def _counted(rows: int) -> str:
    return f"{rows} {'row dominates' if rows == 1 else 'rows dominate'}"


def _listed(entries: list[Entry]) -> str:
    return ", ".join(repr(entry.id) for entry in entries)


def _ranked(query: Query, columns: dict[str, np.ndarray], row: int) -> tuple[str, np.ndarray]:
    """Return why ``where`` leaves a row out, empty where it does not, and which rows have all values and pass it."""
    outside = ""
    ranked = np.logical_and.reduce([~np.isnan(columns[column]) for column in query.columns])
    for column, (low, high) in query.where.items():
        value = columns[column][row]
        if not low <= value <= high:
            outside = outside or f"its {column} is {value:g}, outside {low:g} to {high:g}"
        ranked &= (columns[column] >= low) & (columns[column] <= high)
    return outside, ranked


def _dominance(
    query: Preferring, columns: dict[str, np.ndarray], ranked: np.ndarray, row: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return which ranked rows a row dominates, and which dominate it."""
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


# ---- objects of IncompleteTopK


@runtime_checkable
class ObjectEngine(Protocol):
    """What an engine of the family ``incomplete`` may offer besides, so that more is known of objects."""

    def reported(self, index: int) -> Any:
        """Return the last evaluation's answer: of each object its ``sources``, as bits, and its ``best`` score."""

    def precision(self, index: int) -> float | None:
        """Estimate the share of a query's answer that is right; None where all of it is."""

    def counting(self, index: int, slots: Ints) -> Any:
        """Return rows as a query sees them: ``source`` is a number, negative for one refused; ``value``."""


def full_answer(assigned: Assignment, lines: Sequence[Line], note: str) -> Answer:
    """Return an answer, given as (id, score, tick), with what is known of its objects."""
    query, engine = assigned.query, assigned.engine
    if not isinstance(query, IncompleteTopK) or not isinstance(engine, ObjectEngine):
        return Answer((Entry(id, score) for id, score, _ in lines), note)
    reported = engine.reported(assigned.index)
    result = []
    for (id, score, _), bits, best in zip(lines, reported.sources.tolist(), reported.best.tolist(), strict=True):
        entry = ObjectEntry(id, score)
        entry.sources = tuple(source for s, source in enumerate(query.sources) if bits >> s & 1)
        entry.best = math.inf if math.isnan(best) else best
        result.append(entry)
    precision = engine.precision(assigned.index)
    known = precision is not None and not math.isnan(precision)
    return Answer(result, note + (f", precision about {precision:.2f}" if known else ""))


def explain_object(id: Any, assigned: Assignment, mine: np.ndarray, answer: list[Entry]) -> Why:
    """Explain an object by its live rows, given by their slots, and the answer."""
    query, name, engine = assigned.query, assigned.name, assigned.engine
    assert isinstance(query, IncompleteTopK)
    threshold = answer[-1].score if len(answer) >= query.k else None
    why = Why(id, name, mine.size > 0, False, None, None, threshold)
    if mine.size == 0:
        return replace(why, reason=f"No live row has the id {id!r}.")
    rank = next((i for i, entry in enumerate(answer, 1) if entry.id == id), None)
    if not isinstance(engine, ObjectEngine):
        reason = f"{id!r} is {'not in the answer' if rank is None else f'number {rank} of {query.k}'}."
        return replace(why, answer=rank is not None, rank=rank, reason=reason)
    rows = engine.counting(assigned.index, mine)
    parts: dict[Any, list[float]] = {}
    for source, value in zip(rows.source.tolist(), rows.value.tolist(), strict=True):
        if source >= 0:
            parts.setdefault(query.sources[source], []).append(value)
    if not parts:
        return replace(why, reason=f"{id!r} is not ranked: none of its live rows counts.")
    score, best = query.evaluate(parts)
    if rank is not None:
        score = answer[rank - 1].score
        reason = f"{id!r} scores {score:g} and is number {rank} of {query.k}"
    elif math.isnan(score):
        return replace(why, reason=f"{id!r} is not ranked: its score is not a number.")
    else:
        missed = threshold is None or score > threshold
        reason = f"{id!r} scores {score:g}" + (_MISSED if missed else _needed(threshold, query.k))
    seen = [str(source) for source in query.sources if source in parts]
    silent = [str(source) for source in query.sources if source not in parts]
    reason += f"; seen by {', '.join(seen)}" + (f" and not by {', '.join(silent)}" if silent else "")
    reason += f"; it can get {best:g}." if math.isfinite(best) else "; how much it can get is not known."
    before = answer[: rank - 1] if rank else []
    return replace(why, answer=rank is not None, score=score, rank=rank, dominators=before, reason=reason)
