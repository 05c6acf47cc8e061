"""``reserve`` in NumPy and :mod:`bisect`, for k-NN over the last n rows: what compiling and the grid are worth.

The same algorithm as ``reserve`` without lists: rows above an admission threshold at rank k + slack, in a sorted list
per query; one look at all thresholds per arrival, one at all oldest rows per expiry, a scan of the window when a query
runs short.
"""

from __future__ import annotations

import bisect

import numpy as np

from topwatch.algorithms.topk.designs import slack_for


class PlainReserve:
    """Keeps the answers of k-NN queries; :meth:`push` returns how many rows entered an answer."""

    def __init__(self, points: np.ndarray, k: int, window: np.ndarray) -> None:
        self.k, self.target = k, k + slack_for(k)
        self._points = np.ascontiguousarray(points)  # (queries, columns)
        self._ring = np.ascontiguousarray(window)  # (rows, columns); slot = ordinal modulo rows
        self._end = len(window)  # ordinal of the next row
        self._threshold = np.empty(len(points))
        self._oldest = np.empty(len(points), np.int64)
        self._kept: list[list[tuple[float, int]]] = [[] for _ in points]
        for q in range(len(points)):
            self._fill(q)

    def _fill(self, q: int) -> None:
        distance = np.sqrt(((self._ring - self._points[q]) ** 2).sum(axis=1))
        best = np.argpartition(distance, self.target)[: self.target]
        rows = len(self._ring)
        ordinals = self._end - 1 - (self._end - 1 - best) % rows
        # Smaller is better, and of equal ones the newer: hence the minus.
        self._kept[q] = sorted(zip(distance[best].tolist(), (-ordinals).tolist(), strict=True))
        self._threshold[q] = self._kept[q][-1][0]
        self._oldest[q] = ordinals.min()

    def push(self, rows: np.ndarray) -> int:
        """Take in rows of shape (rows, columns) one after the other."""
        entered = 0
        for row in rows:
            self._ring[self._end % len(self._ring)] = row
            difference = self._points - row
            distance = np.sqrt(np.einsum("ij,ij->i", difference, difference))
            head = self._end - len(self._ring) + 1
            for q in np.flatnonzero(distance <= self._threshold).tolist():
                entry = (float(distance[q]), -self._end)
                entered += bisect.bisect(self._kept[q], entry) < self.k
                bisect.insort(self._kept[q], entry)
                if len(self._kept[q]) > 2 * self.target:
                    del self._kept[q][self.target :]
                    self._threshold[q] = self._kept[q][-1][0]
            self._end += 1
            for q in np.flatnonzero(self._oldest < head).tolist():
                self._kept[q] = [entry for entry in self._kept[q] if -entry[1] >= head]
                self._oldest[q] = min((-entry[1] for entry in self._kept[q]), default=head)
                if len(self._kept[q]) < self.k:
                    self._fill(q)
        return entered

    def answer(self, q: int) -> list[float]:
        """Return the distances of a query's answer, best first."""
        return [distance for distance, _ in self._kept[q][: self.k]]
