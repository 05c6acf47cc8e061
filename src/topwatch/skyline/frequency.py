"""Which records were in the skyline of at least a share of the last snapshots (FSQW; SIGMOD 2009, Definition 6)."""

from __future__ import annotations

from collections import deque

import numpy as np

from topwatch.kernels.scoring import Ints

_ROUNDING = 1e-9  # 0.55 * 100 is more than 55


class Frequency:
    """Counts skylines over a sliding window of timestamps (Algorithm 6, lines 8 to 16).

    Snapshots that nobody looked at count neither way; before the window is full, the share is of those so far.

    >>> frequency = Frequency(share=0.5, window=3)
    >>> for tick, skyline in enumerate([[0], [0, 1], [1], [1]]):
    ...     frequency.add(tick, np.array(skyline))
    >>> frequency.answer().tolist()
    [1]
    """

    def __init__(self, share: float, window: int) -> None:
        self.share = share
        self.window = window
        self.count: Ints = np.zeros(0, np.int64)
        self._kept: deque[tuple[int, Ints]] = deque()

    def add(self, tick: int, skyline: Ints | None) -> None:
        """Take the skyline of a timestamp, as slots; None where it was not looked at."""
        while self._kept and self._kept[0][0] <= tick - self.window:
            self.count[self._kept.popleft()[1]] -= 1
        if skyline is None:
            return
        need = int(skyline.max(initial=-1)) + 1
        if need > self.count.size:
            self.count = np.concatenate([self.count, np.zeros(2 * need - self.count.size, np.int64)])
        self.count[skyline] += 1
        self._kept.append((tick, skyline))

    def answer(self) -> Ints:
        """Return the slots of the records that are frequent; none before the first snapshot."""
        if not self._kept:
            return np.empty(0, np.int64)
        enough = max(self.share * len(self._kept) - _ROUNDING, _ROUNDING)
        return np.flatnonzero(self.count >= enough)

    def state(self) -> dict[str, np.ndarray]:
        """Return the kept skylines as flat arrays."""
        skylines = [skyline for _, skyline in self._kept]
        return {
            "ticks": np.array([tick for tick, _ in self._kept], np.int64),
            "sizes": np.array([skyline.size for skyline in skylines], np.int64),
            "slots": np.concatenate([*skylines, np.empty(0, np.int64)]),
        }

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Take what :meth:`state` gave."""
        ends = np.cumsum(state["sizes"])
        for tick, end, size in zip(state["ticks"], ends, state["sizes"], strict=True):
            self.add(int(tick), state["slots"][end - size : end])
