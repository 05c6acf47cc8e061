"""The topics under a prefix, and the broadcast that starts a timestamp.

Devices publish under ``<prefix>/up/<id>`` and subscribe to ``<prefix>/down/<id>`` and ``<prefix>/tick``;
``<prefix>/skyline`` and ``<prefix>/frequent`` are retained. So a broker's access list needs two lines to keep each
device to its own topics.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from topwatch.edge.protocol.messages import LONGEST_ID, VERSION, id_size
from topwatch.query.errors import DataError, QueryError

_TICK = struct.Struct("!BII")


@dataclass(frozen=True)
class Topics:
    """Names of topics.

    >>> Topics("plant/4").up("pump-7"), Topics("plant/4").device("plant/4/up/pump-7")
    ('plant/4/up/pump-7', 'pump-7')
    """

    prefix: str = "topwatch"

    def __post_init__(self) -> None:
        odd = set("#+\0") & set(self.prefix) or not id_size(self.prefix)
        if odd or self.prefix[0] in "/$" or self.prefix[-1] == "/":
            raise QueryError(f"prefix: expected the beginning of a topic without '#' and '+', got {self.prefix!r}")

    def up(self, id: str) -> str:
        """Return where a device publishes; ``+`` for all."""
        return f"{self.prefix}/up/{id}"

    def down(self, id: str) -> str:
        """Return where a device receives messages."""
        return f"{self.prefix}/down/{id}"

    @property
    def tick(self) -> str:
        """Where timestamps are announced."""
        return f"{self.prefix}/tick"

    @property
    def skyline(self) -> str:
        """Where the skyline is retained."""
        return f"{self.prefix}/skyline"

    @property
    def frequent(self) -> str:
        """Where the frequent skyline is retained."""
        return f"{self.prefix}/frequent"

    def device(self, topic: str) -> str:
        """Return the device that a topic belongs to."""
        return topic.removeprefix(self.up(""))


def checked_id(id: str) -> str:
    """Return the id of a device, or refuse it: it is a part of topics."""
    if not 0 < id_size(id) <= LONGEST_ID or set("/#+\0") & set(id):
        raise QueryError(f"id: expected 1 to {LONGEST_ID} bytes of UTF-8 without '/', '#' and '+', got {id!r}")
    return id


def encode_tick(epoch: int, tick: int) -> bytes:
    """Return the broadcast of a timestamp; the epoch is another after each start of the coordinator."""
    return _TICK.pack(VERSION, epoch, tick)


def decode_tick(data: bytes) -> tuple[int, int]:
    """Return epoch and timestamp.

    >>> decode_tick(encode_tick(7, 12))
    (7, 12)
    """
    if len(data) != _TICK.size:
        raise DataError(f"tick: expected {_TICK.size} bytes, got {len(data)}")
    version, epoch, tick = _TICK.unpack(data)
    if version != VERSION:
        raise DataError(f"tick: expected version {VERSION}, got {version}")
    return epoch, tick
