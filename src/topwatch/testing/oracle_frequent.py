"""In how many snapshots an id was in the skyline, counted from the lists of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def often(id: Any, past: Sequence[tuple[set[Any], set[Any]]]) -> float:
    """The share of the snapshots, given the ids and the skyline of each; an id that was absent starts again."""
    count = 0
    for ids, skyline in reversed(past):
        if id not in ids:
            break
        count += id in skyline
    return count / len(past)
