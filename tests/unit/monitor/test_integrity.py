"""Ctrl-C in the middle of a push: compiled code must not see a state that is half changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from topwatch.monitor import group_windows, serving

TOP = tw.TopK(k=2, score=tw.linear(x=1.0), name="top")
FRONT = tw.Skyline(prefer={"x": "max", "y": "min"}, name="front")


def rows(first: int) -> dict[str, Any]:
    ids = np.arange(first, first + 6)
    return {"id": ids, "g": ids % 2, "x": ids * 1.0, "y": ids % 3 * 1.0}


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("query", "options"),
    [(TOP, {}), (FRONT, {}), (TOP, {"by": "g"}), (FRONT, {"by": "g"})],
    ids=["one window", "skyline", "grouped engine", "a monitor for each group"],
)
def test_what_was_interrupted_is_not_used_again(
    query: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = tw.Monitor(query, window=tw.last(4), **options)
    monitor.push(rows(0))
    saved = monitor.snapshot()
    with monkeypatch.context() as patched:
        patched.setattr(serving.Serving, "_changes", interrupt)
        patched.setattr(group_windows.EngineWindows, "take", interrupt)
        with pytest.raises(KeyboardInterrupt):
            monitor.push(rows(6))
    group = {"by": 0} if options else {}
    uses = [
        lambda: monitor.push(rows(6)),
        lambda: monitor.answer(query.name, **group),
        lambda: monitor.why(0, query.name, **group),
        monitor.snapshot,
        lambda: monitor.remove(query.name),
    ]
    for use in uses:
        with pytest.raises(tw.DataError, match="interrupted"):
            use()
    again = tw.Monitor.restore(saved)
    undisturbed = tw.Monitor(query, window=tw.last(4), **options)
    undisturbed.push(rows(0))
    assert list(again.push(rows(6))) == list(undisturbed.push(rows(6)))


def test_a_batch_that_is_refused_changes_nothing() -> None:
    monitor = tw.Monitor(TOP, window=tw.last(4))
    monitor.push(rows(0))
    with pytest.raises(tw.DataError, match="missing"):
        monitor.push({"id": [1]})
    assert [entry.id for entry in monitor.answer("top")] == [5, 4]
