"""The manifest: which segments make a bucket's state. Small, and the only thing that makes a version of it.

A bucket's state is its last snapshot, the *base*, and the parts with the rows taken in since, the *log*: what can be
derived from them is not stored. When the log has grown to a few times the size of the state, a new base is written and
the log starts again, so that a restart replays a bounded number of rows. One window of the last rows needs no base: the
log itself is kept as long as the window.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from topwatch.errors import DataError
from topwatch.spark.segments import Part

FORMAT = 3
OTHERS = (
    "state: the checkpoint was begun with other queries, another window or other settings;"
    " go on with those, or start with a new checkpoint and an empty sink"
)


@dataclass
class Turn:
    """A micro-batch in the log: the parts with its rows, and the watermark it was taken in with."""

    parts: list[Part]
    watermark: int | None

    @property
    def rows(self) -> int:
        """How many rows came."""
        return sum(part.rows for part in self.parts)


@dataclass
class Manifest:
    """A bucket's state by reference.

    Attributes
    ----------
    token : str
        New with every version: a warm bucket is used only when it has the token that the store has.
    batch, before : int
        The micro-batch that has made this version, and the one that had made the version before it; -1: none.
    base : Part or None
        The snapshot; None before the first one.
    log : list of Turn
        Micro-batches since.
    skipped : int
        Rows before the log, where no snapshot is needed because the log holds the whole window.
    made_for : str
        The fingerprint of what is watched: the state means nothing to other queries.
    refused : int
        Rows without an id or a time so far: they are in no segment of the log.
    dropped : list of (batch, segments)
        Segments that the state no longer names, and since when: an earlier version may still come back.
    """

    token: str = ""
    batch: int = -1
    before: int = -1
    base: Part | None = None
    log: list[Turn] = field(default_factory=list)
    skipped: int = 0
    refused: int = 0
    made_for: str = ""
    dropped: list[tuple[int, list[str]]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows the log has."""
        return sum(turn.rows for turn in self.log)

    def names(self) -> set[str]:
        """Return the segments that this version names."""
        named = {part.segment for turn in self.log for part in turn.parts}
        return named | ({self.base.segment} if self.base is not None else set())

    def renew(self, batch: int, retain: int) -> None:
        """Become the version of a micro-batch; forget what was dropped so long ago that it cannot come back."""
        self.token = uuid.uuid4().hex
        self.batch, self.before = batch, self.batch
        self.dropped = [(since, names) for since, names in self.dropped if batch - since <= retain]

    def rebase(self, base: Part, batch: int) -> None:
        """Start again from a new snapshot."""
        self.dropped.append((batch, sorted(self.names())))
        self.base, self.log, self.skipped = base, [], 0

    def trim(self, rows: int, total: int, batch: int) -> None:
        """Drop the base and the oldest micro-batches, as long as the others have at least so many rows."""
        left, before = self.rows, self.names()
        self.base, self.skipped = None, total - left
        while self.log and left - self.log[0].rows >= rows:
            gone = self.log.pop(0).rows
            left, self.skipped = left - gone, self.skipped + gone
        lost = before - self.names()
        if lost:
            self.dropped.append((batch, sorted(lost)))

    def needed(self) -> set[str]:
        """Return the segments that this version or one that can still come back names."""
        return self.names().union(*(names for _, names in self.dropped))

    def to_bytes(self) -> bytes:
        """Return the manifest as it is kept."""
        log = [{"parts": turn.parts, "watermark": turn.watermark} for turn in self.log]
        return json.dumps({"format": FORMAT, **vars(self), "log": log}).encode()

    @classmethod
    def from_bytes(cls, data: bytes | None) -> Manifest:
        """Undo :meth:`to_bytes`; None is the state before the first row."""
        if data is None:
            return cls()
        try:
            found: dict[str, Any] = json.loads(data)
            version = found.pop("format")
        except (ValueError, KeyError, AttributeError):
            raise DataError("state: what was kept is no topwatch manifest") from None
        if version != FORMAT:
            raise DataError(
                f"state: its format {version} cannot be read; this version of topwatch reads format {FORMAT}."
                " Go on with the version that wrote it, or start with a new checkpoint"
            )
        log = [Turn([Part(*part) for part in turn["parts"]], turn["watermark"]) for turn in found["log"]]
        base = Part(*found["base"]) if found["base"] is not None else None
        dropped = [(int(since), list(names)) for since, names in found["dropped"]]
        return cls(**{**found, "base": base, "log": log, "dropped": dropped})
