"""A feed as a flat dict of arrays, and back. What can be derived from the rows is not saved."""

from __future__ import annotations

from typing import Any

import numpy as np

from topwatch.kernels.latest import NEVER
from topwatch.kernels.scoring import Ints
from topwatch.structures.feed import Feed, FifoFeed, LatestFeed, as_keys
from topwatch.structures.ids import ArrowIds, OrdinalIds, ids_for
from topwatch.structures.schedule import EveryTime

State = tuple[dict[str, Any], dict[str, Any]]


def save_feed(feed: Feed) -> State:
    """Return a header and arrays: the rows held, oldest first, and where the feed stands."""
    slots = feed.window.live_slots()
    seq = feed.window.seq[slots]
    header: dict[str, Any] = {"end": feed.end, "head": feed.head, "judged": feed.judged}
    if isinstance(feed.every, EveryTime):
        header["boundary"] = feed.every.last
    arrays: dict[str, Any] = {"columns": feed.window.columns[:, slots]}
    if feed.ids is not None and not isinstance(feed.ids, OrdinalIds):
        arrays["ids"] = feed.ids.read(slots, seq)
    if isinstance(feed, FifoFeed):
        arrays["times"] = feed.times.values().copy()
    else:
        order = np.full(feed.window.capacity, -1)
        order[slots] = np.arange(slots.size)
        header |= {"tick": feed.window.tick, "judged_tick": feed.judged_tick}
        arrays |= {"seq": seq, "gone": feed.window.gone[slots], "pending": order[feed.window.pending]}
    return header, arrays


def load_feed(feed: Feed, header: dict[str, Any], arrays: dict[str, Any]) -> Ints:
    """Fill a new feed from a saved one; return the slots of the rows in the order they were saved."""
    columns = list(arrays["columns"])
    rows = arrays["columns"].shape[1]
    feed.judged = header["judged"]
    if isinstance(feed.every, EveryTime):
        feed.every.last = header["boundary"]
    slots = (
        _load_fifo(feed, header, arrays, columns, rows)
        if isinstance(feed, FifoFeed)
        else _load_latest(feed, header, arrays, columns, rows)
    )
    if rows:
        feed.ids = ids_for(arrays.get("ids"), feed.window.capacity, ring=isinstance(feed, FifoFeed))
        if isinstance(feed.ids, ArrowIds):
            feed.ids.restore(feed.window.seq[slots], arrays["ids"])
        else:
            feed.ids.write(slots, 0, arrays.get("ids"))
    return slots


def _load_fifo(feed: FifoFeed, header: dict[str, Any], arrays: dict[str, Any], columns: list[Any], rows: int) -> Ints:
    if rows + 1024 > feed.window.capacity:
        feed.window.grow(rows + 1024)
    feed.head = feed.window.head = header["head"]
    feed.window.end = header["end"] - rows
    feed.times.restart(feed.head, arrays["times"])
    return feed.window.append(columns, 0, rows)


def _load_latest(
    feed: LatestFeed, header: dict[str, Any], arrays: dict[str, Any], columns: list[Any], rows: int
) -> Ints:
    window = feed.window
    if rows > window.free():
        window.grow(rows)
    entities = window.entities(as_keys(arrays["ids"])) if rows else np.empty(0, np.int64)
    slots, _, _ = window.append(columns, 0, rows, entities)
    window.seq[slots] = arrays["seq"]
    window.gone[slots] = arrays["gone"]
    # Rows of one id were written in the order of their ticks; the last is current unless it is gone itself.
    retired = slots[arrays["gone"] != NEVER]
    current = window._current[window.entity[retired]]
    window._current[window.entity[retired[current == retired]]] = -1
    window.pending = slots[arrays["pending"]]
    window.tick = header["tick"]
    feed.end, feed.judged_tick = header["end"], header["judged_tick"]
    return slots
