"""A monitor as bytes, and back: the rows it holds, what it last reported, and what it is. All else is derived."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

import numpy as np

from topwatch import snapshots
from topwatch.intake import Intake
from topwatch.waiting import Waiting
from topwatch.windows import duration

if TYPE_CHECKING:
    from topwatch.monitor import Monitor


def save(monitor: Monitor) -> bytes:
    """Return a monitor's state as bytes."""
    from topwatch.structures.saving import save_feed

    header, arrays = save_feed(monitor._feed)
    live = monitor._feed.window.live_slots()
    order = np.full(monitor._feed.window.capacity, -1)
    order[live] = np.arange(live.size)
    for i, served in enumerate(monitor._served.values()):
        slots, keys = served.engine.answer(served.place, monitor._feed.live_slots)
        arrays[f"answer {i} rows"] = order[slots]
        arrays[f"answer {i} keys"] = keys
    for i, engine in enumerate(monitor._engines.values()):
        arrays |= {f"engine {i} {name}": array for name, array in engine.save().items()}
    if monitor._firsts is not None:
        arrays |= monitor._firsts.save([served.number for served in monitor._served.values()])
    if monitor._waiting is not None:
        header["waiting"], held = monitor._waiting.save()
        arrays |= held
    for name in ("ids", "waiting ids"):
        if name in arrays:
            arrays[name] = snapshots.ids_to_array(arrays[name])
    every = monitor._every
    header |= {
        "queries": [{**snapshots.describe_query(s.query), "name": s.name} for s in monitor._served.values()],
        "window": snapshots.describe_window(monitor._window),
        "every": f"{duration('every', every)} ns" if isinstance(every, str | datetime.timedelta) else int(every),
        "algorithm": monitor._algorithm,
        "emit": monitor._emit,
        "options": monitor._options,
        "load": monitor._switch.save() if monitor._switch is not None else None,
        **dataclasses.asdict(monitor._intake),
        "counts": monitor._counts,
    }
    return snapshots.pack(header, arrays)


def resume(kind: type[Monitor], blob: bytes) -> Monitor:
    """Make a monitor from bytes."""
    from topwatch.structures.saving import load_feed

    header, arrays = snapshots.unpack(blob)
    load = header.get("load")
    queries = [snapshots.read_query(data) for data in header["queries"]]
    monitor = kind(
        [],
        snapshots.read_window(header["window"]),
        every=header["every"],
        algorithm=header["algorithm"],
        id=header["id"],
        time=header["time"],
        emit=header.get("emit", "changes"),
        max_lag=f"{round(1e9 * load['most'])} ns" if load else None,
        **header["options"],
    )
    if monitor._switch is not None and load is not None:
        monitor._switch.restore(load)
    monitor._intake = Intake(**{p.name: header[p.name] for p in dataclasses.fields(Intake) if p.name in header})
    monitor._intake.words = {key: (column, tuple(words)) for key, (column, words) in monitor._intake.words.items()}
    monitor._feed = monitor._make_feed()
    monitor._feed.measure(monitor._intake.unit())
    monitor._counts = dict(header["counts"])
    in_arrow = monitor._intake.id_kind not in ("int64", "uint64", "float64")
    for name in ("ids", "waiting ids"):
        if name in arrays:
            arrays[name] = snapshots.ids_from_array(arrays[name], in_arrow)
    if header.get("waiting") is not None:
        monitor._waiting = Waiting.load(header["waiting"], arrays, monitor._intake.time_kind)
    slots = load_feed(monitor._feed, header, arrays)
    monitor._count_alike(queries)
    for i, query in enumerate(queries):
        assert query.name is not None
        monitor._serve(query, monitor._choose(query, query.name))
        served = monitor._served[query.name]
        served.engine.set_answer(served.place, slots[arrays[f"answer {i} rows"]], arrays[f"answer {i} keys"])
    for i, engine in enumerate(monitor._engines.values()):
        engine.resume(monitor._feed.head, monitor._feed.judged_tick)
        prefix = f"engine {i} "
        engine.load({name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)})
    if monitor._firsts is not None:
        monitor._firsts.load(arrays, [served.number for served in monitor._served.values()])
    return monitor
