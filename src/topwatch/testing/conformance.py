"""The suite that every algorithm passes, for algorithms from outside the package as well.

An exact algorithm does the same as the oracle at every evaluation: changes, answers, scores and their order. It does so
on every kind of window that it serves, at every pace, on streams of all shapes, however they are cut into batches,
with queries that come and go, with deletions, and after it was restored in mid-stream. The batches that it is given
stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from topwatch.algorithms.registry import Algorithm, algorithms
from topwatch.query.errors import PlanError
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, servable
from topwatch.testing.oracle import Query, Rows, Seconds, Window

EVERY: tuple[int | Seconds, ...] = (1, 7, Seconds(5))
EDGES = {"one row": (1, 20), "a window of one row": (60, 1), "a window that never fills": (60, 10_000)}


class Checked(NamedTuple):
    """What was compared."""

    streams: int
    rows: int
    changes: int


def check_algorithm(name: str, *, seed: int = 0, rows: int = 300, window: int = 40, **options: Any) -> Checked:
    """Compare an exact algorithm of the registry with the oracle.

    Parameters
    ----------
    name : str
        Of the algorithm; :func:`topwatch.register_algorithm` registers one.
    seed : int
        Of the random streams and queries.
    rows, window : int
        How long streams and windows are.
    **options
        Of the algorithm.

    Returns
    -------
    Checked
        How many streams, rows and changes were compared.

    Raises
    ------
    AssertionError
        Says what differs first, where, and what was expected.
    PlanError
        There is nothing to compare: an algorithm that is approximate, or refuses every query.

    Examples
    --------
    >>> check_algorithm("brute", rows=40, window=10).streams
    24
    """
    entry = algorithms().get(name)
    if entry is None:
        raise PlanError(f"algorithm: unknown name {name!r}; registered are {', '.join(algorithms())}")
    if not entry.exact:
        raise PlanError(f"algorithm: {name!r} is approximate: there is no one right answer to compare it with")
    totals = np.zeros(3, np.int64)
    for number, (kind, every, shape, length, size) in enumerate(_runs(entry, rows, window)):
        rng = np.random.default_rng([seed, number])
        try:
            totals += _run(entry, rng, _window(kind, size), every, shape, length, options)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, a stream of {length} {shape} rows: {error}") from error
    if not totals[0]:
        raise PlanError(f"algorithm: {name!r} serves none of the suite's queries, so nothing was compared")
    return Checked(*totals.tolist())


def _runs(entry: Algorithm, rows: int, window: int) -> Iterator[tuple[str, int | Seconds, str, int, int]]:
    """Yield the kind of window, the pace, the shape of the stream, its length and the window's."""
    kinds = ("count", "time", "latest") if entry.latest else ("count", "time")
    for kind in kinds:
        for every in EVERY:
            yield kind, every, "ties", rows, window
    for number, shape in enumerate(streams.SHAPES):
        yield kinds[number % len(kinds)], (1, 4)[number % 2], shape, rows, window
    for length, size in EDGES.values():
        yield "count", 1, "duplicates", length, size


def _run(
    entry: Algorithm,
    rng: np.random.Generator,
    window: Window,
    every: int | Seconds,
    shape: str,
    rows: int,
    options: dict[str, Any],
) -> tuple[int, int, int]:
    """Compare one stream; return how many streams, rows and changes that were."""
    size = window.size or 20
    stream: Rows = streams.make(shape, rng, rows, pool=max(2, size), bursts=bool(rng.integers(2)))
    if entry.family == "incomplete":
        stream = mixtures.with_sources(rng, stream)
    queries = servable(entry.name, _queries(entry, rng, stream, size, shape), window)
    if not queries:
        return 0, 0, 0
    both = Lockstep(queries[:-1] or queries, window, every, entry.name, **options)
    changes = 0
    for number, batch in enumerate(streams.pieces(stream, streams.random_sizes(rng, 2 * size))):
        before = {column: values.copy() for column, values in batch.items()}
        changes += len(both.push(batch))
        assert all(np.array_equal(batch[c], before[c], equal_nan=batch[c].dtype.kind == "f") for c in batch), (
            "the batch was changed"
        )
        if number == 2 and len(queries) > 1:
            changes += len(both.add(queries[-1]))
        if number == 4 and len(queries) > 2:
            both.remove(queries[1].name)
        if window.kind == "latest" and rng.random() < 0.3:
            changes += len(both.delete(rng.permutation(both.oracle.ids)[:1]))
        if rng.random() < 0.15:
            both.restart()
    if both.time is not None and window.kind != "latest":
        changes += len(both.advance(float(stream["time"][-1]) + 1e6))
    return 1, rows, changes


def _window(kind: str, rows: int) -> Window:
    """Return a window of about so many rows."""
    if kind == "latest":
        return Window(kind)
    return Window(kind, rows if kind == "count" else max(1, rows // streams.ROWS_PER_SECOND))


def _queries(entry: Algorithm, rng: np.random.Generator, stream: Rows, window: int, shape: str) -> list[Query]:
    """Return queries of the kind that an algorithm serves."""
    if entry.family == "dominating":
        return mixtures.dominating(rng, window)
    if entry.family == "skyline":
        return mixtures.skylines()
    if entry.family == "incomplete":
        queries = mixtures.incomplete(rng)
        return [mixtures.bounded(query, rng) for query in queries] if entry.bounded else queries
    return mixtures.mixture(rng, stream, 6, window, shape)
