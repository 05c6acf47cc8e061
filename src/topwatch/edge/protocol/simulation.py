"""Simulates a server and all its clients over arrays: which send, which are probed, the cost and the answers.

Clients are not objects here. Whether they send is decided by the functions that a client calls, for all at once; the
server's side is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from topwatch.algorithms.skyline.frequent import Shares
from topwatch.core.arrays import Floats, Ints
from topwatch.core.sampled_timestamps import check_guarantee
from topwatch.edge.protocol import client, messages
from topwatch.edge.protocol.device_records import Outcome, Records, Settings
from topwatch.edge.protocol.methods import build
from topwatch.query.errors import DataError, QueryError
from topwatch.query.queries import checked_prefer
from topwatch.tables.skyband import skyband

EXACT = ("naive", "filter")


@dataclass(frozen=True)
class Report:
    """The answers of a simulation and their cost.

    Attributes
    ----------
    answers : list of set of int
        The frequent records at each timestamp.
    uplink, downlink, total : int
        Messages from clients, to clients, and both.
    bytes : int
        Their size on the wire.
    cpu_seconds : float
        What the server took.
    recall, precision : float
        Mean of the share of the right records that are in the answer, and of the answer that is right, 1 where there
        are none: over the timestamps with a full window, as in Theorem 5.1, or over all where it never was full.
    failures, probes : int
        X and Y of Theorem 4.1: values that were reported without a probe, joins included, and values that were probed.
    per_timestamp : dict of str to array
        ``uplink``, ``downlink``, ``bytes``, ``cpu_seconds``, ``recall``, ``precision`` and ``skyline``, the size of the
        skyline or -1 where it was not looked at.
    """

    answers: list[set[int]] = field(repr=False)
    uplink: int
    downlink: int
    total: int
    bytes: int
    cpu_seconds: float
    recall: float
    precision: float
    failures: int
    probes: int
    per_timestamp: dict[str, np.ndarray] = field(repr=False)


def simulate(
    snapshots: ArrayLike,
    prefer: Mapping[str, str],
    method: str = "filter",
    share: float = 0.8,
    window: int = 1000,
    epsilon: float = 0.2,
    delta: float = 0.1,
    seed: int = 0,
) -> Report:
    """Run a method over snapshots and report messages and answers.

    Parameters
    ----------
    snapshots : array of shape (timestamps, records, columns)
        The columns in the order of ``prefer``. A record with a NaN is not there at that timestamp.
    prefer : mapping of column to "min" or "max"
        What is better.
    method : str
        ``naive``, ``filter``, ``sampling`` or ``hybrid``.
    share, window : float, int
        Frequent are records in the skyline of that share of the last so many timestamps, of those so far at first.
    epsilon, delta : float
        Error and confidence of the methods that sample (Theorem 5.1).
    seed : int
        Of the schedule.

    Returns
    -------
    Report

    Examples
    --------
    >>> snapshots = np.random.default_rng(1).random((30, 40, 2)) * 0.1 + np.linspace(0, 1, 40)[None, :, None]
    >>> naive, few = (simulate(snapshots, {"x": "min", "y": "min"}, method) for method in ("naive", "filter"))
    >>> few.answers == naive.answers, few.total < naive.total
    (True, True)
    """
    columns = checked_prefer("simulate", prefer)
    values = _checked(snapshots, len(columns))
    check_guarantee(window, share, epsilon, delta, seed)
    records = build(method, Settings(values.shape[2], share, window, epsilon, delta, seed))
    sign = np.array([-1.0 if better == "max" else 1.0 for better in columns.values()])
    return run((snapshot * sign for snapshot in values), values.shape[1], records, method in EXACT)


def run(
    snapshots: Iterable[Floats],
    count: int,
    records: Records,
    exact: bool,
    watch: Callable[[int, Records, Outcome], None] | None = None,
) -> Report:
    """Simulate over snapshots of so many records, smaller values better; ``watch`` is called after each timestamp."""
    settings, columns = records.settings, records.settings.columns
    clients = _Clients(count, columns)
    result, truth = (Shares(settings.window, count) for _ in range(2))
    answers: list[set[int]] = []
    rows = []
    failures = probes = 0
    for tick, snapshot in enumerate(snapshots):
        begin = time.process_time()
        reported = clients.reporters(records, snapshot, settings.is_sampled(tick))
        client_seconds = time.process_time() - begin
        records.begin(tick)
        records.report(reported, snapshot[reported])
        all_probed = 0
        while (probed := records.questions()).size:
            records.answer(probed, snapshot[probed])
            clients.sent[probed] = snapshot[probed]
            all_probed += probed.size
            clients.bytes += clients.weigh(probed, messages.Probe) + clients.weigh(probed, messages.Reply)
        outcome = records.finish()
        result.take(tick, outcome.skyline)
        frequent, _ = result.frequent(settings.share)
        seconds = time.process_time() - begin - client_seconds
        clients.bytes += clients.weigh(reported, messages.Update) + clients.weigh(outcome.scheduled, messages.Schedule)
        clients.bytes += clients.weigh(outcome.filtered, messages.Filter)
        bare = int(np.count_nonzero(records.mode[outcome.filtered] == messages.ALL))  # filters without bounds
        clients.bytes -= bare * (messages.size_of(messages.Filter, columns) - messages.size_of(messages.Filter, 0))
        if exact:
            right = frequent
        else:
            truth.take(tick, _skyline(snapshot))
            right, _ = truth.frequent(settings.share)
        failures += reported.size
        probes += all_probed
        down = all_probed + outcome.filtered.size + outcome.scheduled.size
        size = -1 if outcome.skyline is None else outcome.skyline.size
        rows.append((reported.size + all_probed, down, clients.bytes, seconds, *_quality(frequent, right), size))
        answers.append(set(frequent.tolist()))
        if watch is not None:
            watch(tick, records, outcome)
    names = ("uplink", "downlink", "bytes", "cpu_seconds", "recall", "precision", "skyline")
    table = dict(zip(names, np.array(rows, dtype=np.float64).reshape(-1, len(names)).T, strict=True))
    for name in ("uplink", "downlink", "bytes", "skyline"):
        table[name] = table[name].astype(np.int64)
    table["bytes"] = np.diff(table["bytes"], prepend=0)
    up, down = int(table["uplink"].sum()), int(table["downlink"].sum())
    full = settings.window - 1 if len(rows) >= settings.window else 0
    recall, precision = (float(table[name][full:].mean()) if rows else 1.0 for name in ("recall", "precision"))
    cpu = float(table["cpu_seconds"].sum())
    return Report(answers, up, down, up + down, clients.bytes, cpu, recall, precision, failures, probes, table)


class _Clients:
    """The clients: the values that they sent last. Their filters are those that the server has given."""

    def __init__(self, count: int, columns: int) -> None:
        self.sent = np.full((count, columns), np.nan)
        self.bytes = 0
        self._columns = columns
        self._names = np.char.str_len(np.arange(count).astype(str)) if count else np.zeros(0, np.int64)

    def reporters(self, records: Records, snapshot: Floats, sampled: bool) -> Ints:
        """Return the clients that send at a timestamp, and remember what they send."""
        records.make_room(len(snapshot))
        n = len(snapshot)
        now = snapshot.T
        whole = client.ranked(now)
        left = client.outside(records.low[:n].T, records.high[:n].T, now)
        other = client.changed(self.sent.T, now)
        reported = np.flatnonzero(client.reports(records.mode[:n], sampled, whole, left, other))
        self.sent[reported] = snapshot[reported]
        return reported

    def weigh(self, slots: Ints, kind: type[messages.Message]) -> int:
        """Return the bytes of a message of a kind to or from each of the slots."""
        return int(slots.size * messages.size_of(kind, self._columns) + self._names[slots].sum())


def _checked(snapshots: ArrayLike, columns: int) -> Floats:
    try:
        values = np.asarray(snapshots, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"snapshots: expected numbers of shape (timestamps, records, columns): {error}") from error
    if values.ndim != 3 or values.shape[2] != columns:
        raise DataError(
            f"snapshots: expected shape (timestamps, records, {columns}) for the {columns} columns of prefer, "
            f"got {values.shape}"
        )
    if columns > messages.MOST_COLUMNS:
        raise QueryError(f"prefer: expected at most {messages.MOST_COLUMNS} columns, got {columns}")
    return values


def _skyline(snapshot: Floats) -> Ints:
    there = np.flatnonzero(~np.isnan(snapshot).any(axis=1))
    return there[skyband(np.ascontiguousarray(snapshot[there].T), 1)] if there.size > 1 else there


def _quality(result: Ints, right: Ints) -> tuple[float, float]:
    both = np.intersect1d(result, right, assume_unique=True).size
    return (both / right.size if right.size else 1.0, both / result.size if result.size else 1.0)
