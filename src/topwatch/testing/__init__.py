"""Tests for algorithms, ours and others': an oracle, streams of all shapes, and a suite that compares them.

The oracle (:mod:`topwatch.testing.oracle`) imports nothing of what it tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topwatch.testing.conformance import check_algorithm as check_algorithm

__all__ = ["check_algorithm"]


def __getattr__(name: str) -> Any:
    if name == "check_algorithm":
        from topwatch.testing.conformance import check_algorithm

        return check_algorithm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
