"""What is known of the objects of IncompleteTopK: beside the answer, and when a user asks why."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.monitor.assignments import Served
from topwatch.monitor.changes import Answer, Entry, ObjectEntry
from topwatch.monitor.load_shedding import note_of
from topwatch.monitor.why import Why
from topwatch.query.incomplete_topk import IncompleteTopK

if TYPE_CHECKING:
    from topwatch.algorithms.incomplete.engine import Gatherings


def answer(served: Served, lines: list[tuple[Any, float, int]]) -> Answer:
    """Return an answer, given as (id, score, tick), with what is known of its objects."""
    query = served.query
    assert isinstance(query, IncompleteTopK)
    told = _engine(served).told(served.place)
    found = []
    for (id, score, _), bits, best in zip(lines, told.sources.tolist(), told.best.tolist(), strict=True):
        entry = ObjectEntry(id, score)
        entry.sources = tuple(source for s, source in enumerate(query.sources) if bits >> s & 1)
        entry.best = math.inf if math.isnan(best) else best
        found.append(entry)
    precision = _engine(served).precision(served.place)
    known = precision is not None and not math.isnan(precision)
    return Answer(found, note_of(served, None) + (f", precision about {precision:.2f}" if known else ""))


def explain(id: Any, served: Served, mine: np.ndarray, answer: list[Entry]) -> Why:
    """Explain an object by its live rows, given by their slots, and the answer."""
    query, name = served.query, served.name
    assert isinstance(query, IncompleteTopK)
    bar = answer[-1].score if len(answer) >= query.k else None
    if mine.size == 0:
        return Why(id, name, False, False, None, None, bar, reason=f"No live row has the id {id!r}.")
    rows = _engine(served).counting(served.place, mine)
    parts: dict[Any, list[float]] = {}
    for source, value in zip(rows.source.tolist(), rows.value.tolist(), strict=True):
        if source >= 0:
            parts.setdefault(query.sources[source], []).append(value)
    rank = next((i for i, entry in enumerate(answer, 1) if entry.id == id), None)
    if not parts:
        reason = f"{id!r} is not ranked: none of its live rows counts."
        return Why(id, name, True, False, None, None, bar, reason=reason)
    score, best = query.evaluate(parts)
    if rank is not None:
        score = answer[rank - 1].score
        reason = f"{id!r} scores {score:g} and is number {rank} of {query.k}"
    elif bar is None:
        return Why(id, name, True, False, None, None, bar, reason=f"{id!r} is not ranked: its score is not a number.")
    else:
        reason = f"{id!r} scores {score:g}: {bar:g} is needed to be among the best {query.k}"
    seen = [str(source) for source in query.sources if source in parts]
    silent = [str(source) for source in query.sources if source not in parts]
    reason += f"; seen by {', '.join(seen)}"
    if silent:
        reason += f" and not by {', '.join(silent)}"
    reason += f"; it can get {best:g}." if math.isfinite(best) else "; how much it can get is not known."
    return Why(id, name, True, rank is not None, score, rank, bar, answer[: rank - 1] if rank else [], reason)


def _engine(served: Served) -> Gatherings:
    from topwatch.algorithms.incomplete.engine import Gatherings

    assert isinstance(served.engine, Gatherings)
    return served.engine
