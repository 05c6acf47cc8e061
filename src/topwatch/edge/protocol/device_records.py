"""What the server knows of the records, by slot, and what all methods have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from topwatch.core.arrays import NO_INTS, Floats, Ints
from topwatch.core.sampled_timestamps import is_sampled, sampling_rate
from topwatch.edge.protocol.messages import ALL
from topwatch.tables.skyband import skyband

_FIRST = 64  # slots


@dataclass(frozen=True)
class Settings:
    """What a method is given; the last two are the costs of a message up and of one down."""

    columns: int
    share: float = 0.8
    window: int = 1000
    epsilon: float = 0.2
    delta: float = 0.1
    seed: int = 0
    up: float = 1.0
    down: float = 1.0

    @property
    def rate(self) -> float:
        """The share of timestamps that are sampled."""
        return sampling_rate(self.window, self.share, self.epsilon, self.delta)

    def is_sampled(self, tick: int) -> bool:
        """Return whether a timestamp is sampled."""
        return is_sampled(self.seed, self.rate, tick)


@dataclass(frozen=True)
class Outcome:
    """The result of a timestamp."""

    skyline: Ints | None  # None where it was not looked at
    filtered: Ints = field(default_factory=lambda: NO_INTS)  # get a filter, or a message that they have none
    scheduled: Ints = field(default_factory=lambda: NO_INTS)  # get the schedule


class Records:
    """Records with the values that they reported; a method decides which to probe and what the skyline is.

    A timestamp is :meth:`begin`, :meth:`report` and :meth:`remove` as often as wanted, :meth:`questions` and
    :meth:`answer` until none is probed, then :meth:`finish`. Slots are numbers that the caller gives, small ones.
    Smaller is better in every column.
    """

    BY_SLOT: tuple[str, ...] = ("alive", "met", "mode", "point", "low", "high")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tick = -1
        self.alive = np.zeros(0, np.bool_)  # there, and all values known
        self.met = np.zeros(0, np.bool_)  # has joined
        self.mode: Ints = np.zeros(0, np.int64)
        self.point, self.low, self.high = np.zeros((3, 0, settings.columns))
        self._joined: list[Ints] = []

    def begin(self, tick: int) -> None:
        """Start a timestamp."""
        self.tick = tick
        self._joined = []

    def report(self, slots: Ints, values: Floats) -> None:
        """Take the values of records that joined or reported; those with a missing value are not ranked."""
        self.make_room(int(slots.max(initial=-1)) + 1)
        self._joined.append(slots[~self.met[slots]])
        self.met[slots] = True
        whole = ~np.isnan(values).any(axis=1)
        self._take(slots[whole], values[whole])
        self.alive[slots] = whole

    def remove(self, slots: Ints) -> None:
        """Take records that left."""
        self.alive[slots] = self.met[slots] = False
        self.mode[slots] = ALL

    def make_room(self, slots: int) -> None:
        """Grow to at least so many slots."""
        have = len(self.alive)
        if slots <= have:
            return
        more = max(slots, 2 * have, _FIRST) - have
        for name in self.BY_SLOT:
            array = getattr(self, name)
            blank = np.full((more, *array.shape[1:]), self._blank(name), array.dtype)
            setattr(self, name, np.concatenate([array, blank]))

    def questions(self) -> Ints:
        """Return the records to probe for their values before the timestamp can be finished."""
        return NO_INTS

    def answer(self, slots: Ints, values: Floats) -> None:
        """Take the values of records that were probed."""
        self.report(slots, values)

    def finish(self) -> Outcome:
        """End the timestamp."""
        raise NotImplementedError

    def _take(self, slots: Ints, values: Floats) -> None:
        self.point[slots] = values

    def _joiners(self) -> Ints:
        result = np.concatenate(self._joined) if self._joined else NO_INTS
        return result[self.met[result]]

    def _skyline(self, slots: Ints) -> Ints:
        """Return those of the slots whose points no other dominates."""
        return slots[skyband(np.ascontiguousarray(self.point[slots].T), 1)] if slots.size > 1 else slots

    def _blank(self, name: str) -> float:
        """Return what a slot holds that was never used."""
        return 0
