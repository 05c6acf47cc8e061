"""What is known of the objects of IncompleteTopK: beside the answer, and when a user asks why."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.monitor.assignments import Assignment
from topwatch.monitor.changes import Answer, Entry, ObjectEntry
from topwatch.monitor.load_shedding import note_of
from topwatch.monitor.why import Why
from topwatch.query.incomplete_topk import IncompleteTopK

if TYPE_CHECKING:
    from topwatch.algorithms.incomplete.engine import Gatherings


def answer(assigned: Assignment, lines: list[tuple[Any, float, int]]) -> Answer:
    """Return an answer, given as (id, score, tick), with what is known of its objects."""
    query = assigned.query
    assert isinstance(query, IncompleteTopK)
    reported = _engine(assigned).reported(assigned.index)
    result = []
    for (id, score, _), bits, best in zip(lines, reported.sources.tolist(), reported.best.tolist(), strict=True):
        entry = ObjectEntry(id, score)
        entry.sources = tuple(source for s, source in enumerate(query.sources) if bits >> s & 1)
        entry.best = math.inf if math.isnan(best) else best
        result.append(entry)
    precision = _engine(assigned).precision(assigned.index)
    known = precision is not None and not math.isnan(precision)
    return Answer(result, note_of(assigned, None) + (f", precision about {precision:.2f}" if known else ""))


def explain(id: Any, assigned: Assignment, mine: np.ndarray, answer: list[Entry]) -> Why:
    """Explain an object by its live rows, given by their slots, and the answer."""
    query, name = assigned.query, assigned.name
    assert isinstance(query, IncompleteTopK)
    threshold = answer[-1].score if len(answer) >= query.k else None
    if mine.size == 0:
        return Why(id, name, False, False, None, None, threshold, reason=f"No live row has the id {id!r}.")
    rows = _engine(assigned).counting(assigned.index, mine)
    parts: dict[Any, list[float]] = {}
    for source, value in zip(rows.source.tolist(), rows.value.tolist(), strict=True):
        if source >= 0:
            parts.setdefault(query.sources[source], []).append(value)
    rank = next((i for i, entry in enumerate(answer, 1) if entry.id == id), None)
    if not parts:
        reason = f"{id!r} is not ranked: none of its live rows counts."
        return Why(id, name, True, False, None, None, threshold, reason=reason)
    score, best = query.evaluate(parts)
    if rank is not None:
        score = answer[rank - 1].score
        reason = f"{id!r} scores {score:g} and is number {rank} of {query.k}"
    elif threshold is None:
        return Why(
            id, name, True, False, None, None, threshold, reason=f"{id!r} is not ranked: its score is not a number."
        )
    else:
        reason = f"{id!r} scores {score:g}: {threshold:g} is needed to be among the best {query.k}"
    seen = [str(source) for source in query.sources if source in parts]
    silent = [str(source) for source in query.sources if source not in parts]
    reason += f"; seen by {', '.join(seen)}"
    if silent:
        reason += f" and not by {', '.join(silent)}"
    reason += f"; it can get {best:g}." if math.isfinite(best) else "; how much it can get is not known."
    return Why(id, name, True, rank is not None, score, rank, threshold, answer[: rank - 1] if rank else [], reason)


def _engine(assigned: Assignment) -> Gatherings:
    from topwatch.algorithms.incomplete.engine import Gatherings

    assert isinstance(assigned.engine, Gatherings)
    return assigned.engine
