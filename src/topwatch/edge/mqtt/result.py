"""The result of a timestamp: as a line to print, and as the JSON that is published."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

_EPOCH = datetime.fromtimestamp(0, UTC)


class Result(NamedTuple):
    """The result of a timestamp."""

    tick: int
    skyline: list[str] | None
    frequent: list[str]
    devices: list[str]
    late: tuple[int, ...] = ()  # timestamps that messages came too late for: answers from there to here may be wrong
    time: datetime = _EPOCH  # when the timestamp began
    refused: int = 0  # messages since the coordinator started
    refusals: tuple[str, ...] = ()  # lines about refused messages that are to be shown now

    def line(self) -> str:
        """Return it in a line.

        >>> Result(7, ["a"], ["a", "c"], ["a", "b", "c"], refused=4).line()
        'tick 7: 3 devices, skyline a; frequent a, c; 4 refused'
        """
        skyline = "not sampled" if self.skyline is None else ", ".join(sorted(self.skyline)) or "empty"
        devices = f"{len(self.devices)} device{'' if len(self.devices) == 1 else 's'}"
        line = f"tick {self.tick}: {devices}, skyline {skyline}; frequent {', '.join(sorted(self.frequent)) or 'none'}"
        return f"{line}; {self.refused} refused" if self.refused else line


def payload_of(result: Result, values: Mapping[str, Mapping[str, float] | None]) -> bytes:
    """Return what is published about ids, with the values that are known of them.

    JSON has no infinite numbers: they are the strings that JSON for Protocol Buffers has.

    >>> payload_of(Result(7, ["a"], [], ["a"]), {"a": {"price": 1.5, "stars": math.inf}, "b": None}).decode()[:72]
    '{"tick": 7, "time": "1970-01-01T00:00:00.000Z", "devices": 1, "refused":'
    """
    known = {
        id: {column: _number(value) for column, value in row.items()} for id, row in values.items() if row is not None
    }
    content = {
        "tick": result.tick,
        "time": f"{result.time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z",
        "devices": len(result.devices),
        "refused": result.refused,
        "ids": list(values),
        "values": known,
    }
    return json.dumps(content, allow_nan=False).encode()


def _number(value: float) -> float | str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
