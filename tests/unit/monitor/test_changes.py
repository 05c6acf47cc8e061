"""Changes: an index and slices of them say what a list of them would, and notebooks show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from topwatch.monitor.changes import Changes, join
from topwatch.monitor.display import SHOWN

QUERIES = [tw.TopK(k=2, score="x", name="top"), tw.Nearest(k=1, point={"x": 0.0}, name="near")]
ENDS = [(None, None), (2, 5), (-3, None), (None, 90), (5, 5), (90, 99)]
SLICES = [*((*ends, None) for ends in ENDS), (None, None, -1), (1, -1, 3), (7, 3, -2)]


def pushed(ids: Any, **more: Any) -> Changes:
    m = tw.Monitor(QUERIES, window=tw.last(4), **more)
    return m.push({"id": ids, "x": np.sin(np.arange(12.0)), "g": ["n", "s", None] * 4, "h": [1, 2, 3, 4] * 3})


def noted() -> Changes:
    """Changes of which some have a note, in runs."""
    parts = [pushed(np.arange(12))[:count].noted(note) for count, note in ((3, ""), (2, "rough"), (4, "rougher"))]
    return join(["top", "near"], parts)


MADE: dict[str, Any] = {
    "numbers": lambda: pushed(np.arange(12)),
    "text": lambda: pushed(list("abcdefghijkl")),
    "groups": lambda: pushed(np.arange(12), by="g"),
    "groups of two columns": lambda: pushed(list("abcdefghijkl"), by=["g", "h"]),
    "notes": noted,
    "none": lambda: pushed(np.arange(12))[:0],
}


def lines(changes: Any) -> list[Any]:
    return [(*change, change.by, change.note, repr(change)) for change in changes]


@pytest.mark.parametrize("kind", MADE)
def test_parts_of_changes(kind: str) -> None:
    changes = MADE[kind]()
    every = list(changes)
    assert lines(changes[index] for index in range(len(changes))) == lines(every)
    assert lines(changes[-index - 1] for index in range(len(changes))) == lines(every[::-1])
    assert lines(changes[np.int64(index)] for index in range(len(changes))) == lines(every)
    table = changes.to_arrow()
    for ends in SLICES:
        part = changes[slice(*ends)]
        assert isinstance(part, Changes)
        assert lines(part) == lines(every[slice(*ends)])
        assert lines(part[::-1]) == lines(every[slice(*ends)][::-1])
        assert part.to_arrow().to_pylist() == table.to_pylist()[slice(*ends)]
    for index in (len(changes), -len(changes) - 1):
        with pytest.raises(IndexError, match=str(index)):
            changes[index]


def test_an_index_is_a_whole_number() -> None:
    for index in ("top", 1.0, None, (1, 2)):
        with pytest.raises(TypeError):
            pushed(np.arange(12))[index]  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", MADE)
def test_changes_are_frames(kind: str) -> None:
    changes = MADE[kind]()
    table = changes.to_arrow()
    assert changes.to_polars().to_dict(as_series=False) == table.to_pydict()
    assert list(changes.to_pandas()) == table.column_names


@pytest.mark.parametrize("kind", MADE)
def test_a_notebook_shows_the_first_changes(kind: str) -> None:
    changes = MADE[kind]()
    html = changes._repr_html_()
    for name in changes.to_arrow().column_names:
        assert f"<th>{name}</th>" in html
    assert html.count("<tr>") == 1 + min(SHOWN, len(changes))
    assert (f"{len(changes) - SHOWN} more" in html) == (len(changes) > SHOWN)
    assert html.count("<td>") == html.count("<th>") * (html.count("<tr>") - 1)
