"""A feed as fields and a flat dict of arrays, and back. What can be derived from the rows is not saved.

Of a window that rows leave in the order they came, that is nearly all: ordinals follow from the last one, and with
``every`` in rows the last evaluation does too. Of a latest window, which of its rows are gone but not evaluated to be
follows from the ticks at which they went.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from topwatch.core.ids import ArrowIds, OrdinalIds, ids_for
from topwatch.core.kernels.latest_rows import NEVER
from topwatch.core.kernels.scoring import Ints
from topwatch.core.saved_state import Fields, Saved
from topwatch.core.schedule import EveryRows, EveryTime
from topwatch.core.stream import Feed, FifoFeed, LatestFeed, as_keys

State = tuple[dict[str, Any], dict[str, Any]]


def save_feed(feed: Feed) -> State:
    """Return fields and arrays: the rows held, oldest first, and where the feed stands."""
    slots = feed.window.live_slots()
    seq = feed.window.seq[slots]
    fields: dict[str, Any] = {"end": feed.end}
    if isinstance(feed.every, EveryTime):
        fields["evaluated"] = feed.evaluated
    arrays: dict[str, Any] = {"columns": feed.window.columns[:, slots]}
    if slots.size and not isinstance(feed.ids, OrdinalIds):
        assert feed.ids is not None
        arrays["ids"] = feed.ids.read(slots, seq)
    if isinstance(feed, FifoFeed):
        if feed.times.values().size:
            arrays["times"] = feed.times.values().copy()
    else:
        fields |= {"tick": feed.window.tick, "judged_tick": feed.evaluated_tick}
        arrays |= {"seq": seq, "gone": feed.window.gone[slots]}
    return fields, arrays


def load_feed(
    feed: Feed, fields: Fields, saved: Saved, columns: np.ndarray, ids: Any, times: np.ndarray | None
) -> Ints:
    """Fill a new feed from a saved one; return the slots of the rows in the order they were saved.

    ``columns`` has the values of the rows, ``ids`` and ``times`` what belongs to them; None where there are none.
    """
    rows = columns.shape[1]
    end = fields.whole("end", rows)
    if isinstance(feed.every, EveryRows):
        feed.evaluated = end - end % feed.every.rows
    else:
        feed.evaluated = fields.whole("evaluated", 0, end)
    if isinstance(feed, FifoFeed):
        slots = _load_fifo(feed, fields, end, columns, times)
    else:
        slots = _load_latest(feed, fields, saved, end, columns, ids)
    fields.done()
    if rows:
        feed.ids = ids_for(ids, feed.window.capacity, ring=isinstance(feed, FifoFeed))
        if isinstance(feed.ids, ArrowIds):
            feed.ids.restore(feed.window.seq[slots], ids)
        else:
            feed.ids.write(slots, 0, ids)
    return slots


def _load_fifo(feed: FifoFeed, fields: Fields, end: int, columns: np.ndarray, times: np.ndarray | None) -> Ints:
    rows = columns.shape[1]
    head = end - rows + 1
    if feed.rows is not None:
        wanted = max(1, feed.evaluated - feed.rows + 1)
        fields.expect(head == wanted, "end", f"{end - wanted + 1} rows in the window", rows)
    fields.expect(head <= feed.evaluated + 1, "evaluated", f"at least {head - 1}", feed.evaluated)
    feed.head = feed.window.head = head
    feed.window.end = head - 1
    feed.times.restart(head, np.empty(0) if times is None else times)  # also when all rows are gone: ordinals go on
    return feed.window.append(list(columns), 0, rows)


def _load_latest(feed: LatestFeed, fields: Fields, saved: Saved, end: int, columns: np.ndarray, ids: Any) -> Ints:
    window, rows = feed.window, columns.shape[1]
    tick = fields.whole("tick", end)
    evaluated = fields.whole("judged_tick", 0, tick)
    seq, gone = saved.rising("seq", rows, low=1, high=tick), saved.ints("gone", rows, low=0, high=NEVER)
    retired = gone != NEVER
    left = gone[retired]
    saved.expect(
        np.all((left > seq[retired]) & (left > evaluated) & (left <= tick)), "gone", "ticks since an evaluation"
    )
    fresh = int((seq > evaluated).sum())
    saved.expect(fresh == end - feed.evaluated, "seq", f"{end - feed.evaluated} rows since the last evaluation", fresh)
    entities = _entities(feed, saved, ids) if rows else np.empty(0, np.int64)
    slots, old, old_row = window.append(list(columns), 0, rows, entities)
    row_of = np.zeros(window.capacity, np.int64)
    row_of[slots] = np.arange(rows)
    saved.expect(np.all(gone[row_of[old]] <= seq[old_row]), "gone", "rows that are gone when their id comes again")
    window.seq[slots], window.gone[slots] = seq, gone
    # Rows of one id were written in the order of their ticks; the last is current unless it is gone itself.
    current = window._current[window.entity[slots[retired]]]
    window._current[window.entity[slots[retired][current == slots[retired]]]] = -1
    window.pending = slots[retired][np.lexsort((seq[retired], left))]
    window.tick, feed.end, feed.evaluated_tick = tick, end, evaluated
    return slots


def _entities(feed: LatestFeed, saved: Saved, ids: Any) -> Ints:
    try:
        return feed.window.entities(as_keys(ids))
    except TypeError:  # of ids such as lists, which no monitor takes
        saved.expect(False, "ids", "ids that can be compared", str(getattr(ids, "type", None)))
        raise
