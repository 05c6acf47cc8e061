"""Algorithms that a test registers are gone after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from topwatch.algorithms import registry


@contextmanager
def registered_as_before() -> Iterator[None]:
    """Forget, at the end, which algorithms were registered meanwhile."""
    before = dict(registry._registered)
    try:
        yield
    finally:
        if registry._registered != before:
            registry._registered.clear()
            registry._registered.update(before)
            registry._look_again()
