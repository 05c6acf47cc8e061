"""The messages between devices and server, and their form on the wire: short, versioned, bounded.

A message is a header, the id of the device and numbers in network order: a byte for the version, one for the type, four
for the run of the device (a number it draws when it starts), four for the timestamp, one for the length of the id. Only
a refusal has text in place of numbers. Nothing else is in it, and what is too long, too short or of another version is
refused.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from topwatch.query.errors import DataError

VERSION = 1
MOST_COLUMNS = 32
LONGEST_ID = 64
MOST_BYTES = 640  # of any message
MOST_TICKS = (1 << 32) - 1
LONGEST_REASON = 200

# What a device reports.
ALL = 0  # no filter, no schedule: every change is reported
FILTER = 1  # FM: only what leaves the filter
SAMPLE = 2  # SM: only at sampled timestamps
MIXED = 3  # MM: both
MODES = ("all", "filter", "sample", "mixed")

Values: TypeAlias = tuple[float, ...]

_HEADER = struct.Struct("!BBIIB")


def id_size(id: str) -> int:
    """Return how many bytes an id has, 0 where it cannot be written in UTF-8."""
    try:
        return len(id.encode())
    except UnicodeEncodeError:
        return 0


def is_id(id: object) -> bool:
    """Return whether something can be the id of a device."""
    return isinstance(id, str) and 0 < id_size(id) <= LONGEST_ID


@dataclass(frozen=True)
class _Message:
    id: str
    tick: int
    run: int = 0
    number: ClassVar[int]

    def __post_init__(self) -> None:
        if not is_id(self.id):
            raise DataError(f"id: expected 1 to {LONGEST_ID} bytes of UTF-8, got {self.id!r}")
        for name in ("tick", "run"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TICKS:
                raise DataError(f"{name}: expected a whole number from 0 to {MOST_TICKS}, got {value!r}")

    def _body(self) -> bytes:
        return b""

    def encode(self) -> bytes:
        """Return the form on the wire."""
        name = self.id.encode()
        return _HEADER.pack(VERSION, self.number, self.run, self.tick, len(name)) + name + self._body()


@dataclass(frozen=True)
class _WithValues(_Message):
    values: Values = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < len(self.values) <= MOST_COLUMNS:
            raise DataError(f"values: expected 1 to {MOST_COLUMNS}, got {len(self.values)}")

    def _body(self) -> bytes:
        return struct.pack(f"!{len(self.values)}d", *self.values)


@dataclass(frozen=True)
class Join(_WithValues):
    """A device is there, with its values. Up."""

    number = 1


@dataclass(frozen=True)
class Update(_WithValues):
    """The values of a device that left its filter or is sampled. Up."""

    number = 2


@dataclass(frozen=True)
class Reply(_WithValues):
    """The values of a device that was probed. Up."""

    number = 3


@dataclass(frozen=True)
class Leave(_Message):
    """A device has gone. Up, as a last will from the broker; down, when it is taken for gone and has to join again."""

    number = 4


@dataclass(frozen=True)
class Probe(_Message):
    """The server needs the values. Down."""

    number = 5


@dataclass(frozen=True)
class Filter(_Message):
    """A new filter: report what leaves it. Down. Without bounds: report every change."""

    number = 6
    mode: int = ALL
    low: Values = ()
    high: Values = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in range(len(MODES)):
            raise DataError(f"mode: expected one of {', '.join(MODES)}, got {self.mode!r}")
        if len(self.low) != len(self.high) or len(self.low) > MOST_COLUMNS or (self.mode != ALL) != bool(self.low):
            raise DataError(f"filter: {len(self.low)} and {len(self.high)} bounds do not go with {MODES[self.mode]}")
        if any(math.isnan(bound) for bound in (*self.low, *self.high)):
            raise DataError("filter: expected numbers as bounds, got NaN")

    def _body(self) -> bytes:
        return struct.pack(f"!B{2 * len(self.low)}d", self.mode, *self.low, *self.high)


@dataclass(frozen=True)
class Schedule(_Message):
    """How timestamps are sampled. Down. ``mode`` is what the device does from now on."""

    number = 7
    mode: int = ALL
    seed: int = 0
    rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in (ALL, SAMPLE) or not 0 <= self.seed < 1 << 64 or not 0.0 < self.rate <= 1.0:
            raise DataError(f"schedule: mode {self.mode!r}, seed {self.seed!r} and rate {self.rate!r} make no schedule")

    def _body(self) -> bytes:
        return struct.pack("!BQd", self.mode, self.seed, self.rate)


@dataclass(frozen=True)
class Refusal(_Message):
    """The server cannot use what the device sends, and why. Down. ``reason`` is a line of text."""

    number = 8
    reason: str = "refused"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < id_size(self.reason) <= LONGEST_REASON or not self.reason.isprintable():
            raise DataError(f"reason: expected a line of up to {LONGEST_REASON} bytes, got {self.reason!r}")

    def _body(self) -> bytes:
        return self.reason.encode()


Message: TypeAlias = Join | Update | Reply | Leave | Probe | Filter | Schedule | Refusal
_KINDS: tuple[type[Message], ...] = (Join, Update, Reply, Leave, Probe, Filter, Schedule, Refusal)
_TYPES: dict[int, type[Message]] = {kind.number: kind for kind in _KINDS}


def size_of(kind: type[Message], columns: int) -> int:
    """Return the bytes of a message without those of the id and of a reason.

    >>> size_of(Update, 4), len(Update("a7", 3, 0, (1.0, 2.0, 3.0, 4.0)).encode()) - len("a7")
    (43, 43)
    """
    body = {Filter: 1 + 16 * columns, Schedule: 17, Leave: 0, Probe: 0, Refusal: 0}
    return _HEADER.size + body.get(kind, 8 * columns)


def decode(data: bytes) -> Message:
    """Return the message that bytes are, or raise :class:`topwatch.DataError`.

    >>> decode(Update("a", 7, 1, (0.5, float("inf"))).encode())
    Update(id='a', tick=7, run=1, values=(0.5, inf))
    """
    if not _HEADER.size < len(data) <= MOST_BYTES:
        raise DataError(f"message: expected {_HEADER.size + 1} to {MOST_BYTES} bytes, got {len(data)}")
    version, number, run, tick, length = _HEADER.unpack_from(data)
    if version != VERSION:
        raise DataError(f"message: expected version {VERSION}, got {version}")
    kind = _TYPES.get(number)
    if kind is None:
        raise DataError(f"message: expected a type from 1 to {len(_TYPES)}, got {number}")
    body = data[_HEADER.size + length :]
    try:
        name = data[_HEADER.size : _HEADER.size + length].decode()
        if issubclass(kind, _WithValues):
            values = struct.unpack(f"!{len(body) // 8}d", body)
            # NaN has many forms, and arithmetic complains of some of them.
            return kind(name, tick, run, tuple(math.nan if math.isnan(value) else value for value in values))
        if kind is Filter:
            bounds = struct.unpack(f"!{(len(body) - 1) // 8}d", body[1:])
            return Filter(name, tick, run, body[0], bounds[: len(bounds) // 2], bounds[len(bounds) // 2 :])
        if kind is Schedule:
            return Schedule(name, tick, run, *struct.unpack("!BQd", body))
        if kind is Refusal:
            return Refusal(name, tick, run, body.decode())
        struct.unpack("!", body)
        return kind(name, tick, run)
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise DataError(f"message: {kind.__name__} of {len(data)} bytes is cut or damaged") from error
