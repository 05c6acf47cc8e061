"""Another algorithm takes over a full window, as under load: so all that are compared start from the same rows.

A benchmark reaches here into what a monitor keeps to itself, for what no user of it does.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from topwatch.core.saved_state import Saved
from topwatch.monitor.monitor import Monitor


def continued(blob: bytes, algorithm: str, every: int | None = None, **options: Any) -> Monitor:
    """Return a monitor that continues from a snapshot by another algorithm."""
    monitor = Monitor.restore(blob)
    serving, before = monitor._serving, monitor.settings
    settings = dataclasses.replace(
        before, algorithm=algorithm, options=options, every=every or before.every, by=before.by or None
    )
    saved = [engine.save(indices) for _, engine, indices in serving.numbered()]
    if settings.every != before.every:
        serving.feed.every = settings.schedule()
    monitor._settings = serving.settings = settings
    serving.change_engines()
    if all(one.query.family == "incomplete" for one in serving.assigned.values()):
        for (_, engine, _), arrays in zip(serving.numbered(), saved, strict=True):
            engine.load(Saved(arrays))  # which rows counted, and what was learnt, is not in the rows
    return monitor
