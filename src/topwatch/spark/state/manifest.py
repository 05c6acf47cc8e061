"""The manifest: which segments make a bucket's state. Small, and the only thing that makes a version of it.

A bucket's state is its last snapshot, the *base*, and the parts with the rows taken in since, the *log*: what can be
derived from them is not stored. When the log has grown to a few times the size of the state, a new base is written and
the log starts again, so that a restart replays a bounded number of rows. One window of the last rows needs no base: the
log itself is kept as long as the window.

Manifests are values in Spark's state store, which owns their versions: what Spark commits counts, and nothing else.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from topwatch.query.errors import DataError
from topwatch.spark.state.segments import Part

FORMAT = 7
NEEDS = "needs-"  # how the names of the metadata files begin that name a version's segments
PARTITIONS = "spark.sql.shuffle.partitions"
CENSUS = -1  # the state group that is no bucket, and knows how many there are
OTHERS = (
    "state: the checkpoint was begun with other queries, another window or other settings;"
    " go on with those, or start with a new checkpoint and an empty sink"
)


@dataclass
class MicroBatch:
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
    state : str
        Drawn with the first version: which state it is, whatever else is equal.
    token : str
        New with every version: a warm bucket is used only when it has the token that the store has.
    number : int
        How many micro-batches have been taken in.
    metadata, before : str
        The metadata file that names the segments this version needs, and that of the version before.
    base : Part or None
        The snapshot; None before the first one.
    log : list of MicroBatch
        Micro-batches since.
    skipped : int
        Rows before the log. Where there is no base, the log holds the whole window.
    made_for, buckets : str, int
        The fingerprint of what is watched, and the number of buckets: the state means nothing to others.
    refused : int
        Rows without an id or a time so far: they are in no segment of the log.
    dropped : list of (number, segments)
        Segments that the state no longer names, and since when: an earlier version may still come back.
    """

    state: str = ""
    token: str = ""
    number: int = 0
    metadata: str = ""
    before: str = ""
    base: Part | None = None
    log: list[MicroBatch] = field(default_factory=list)
    skipped: int = 0
    refused: int = 0
    made_for: str = ""
    buckets: int = 1
    dropped: list[tuple[int, list[str]]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows the log has."""
        return sum(batch.rows for batch in self.log)

    def parts(self) -> list[Part]:
        """Return all parts that this version names."""
        base = [] if self.base is None else [self.base]
        return [*base, *(part for batch in self.log for part in batch.parts)]

    def names(self) -> set[str]:
        """Return the segments that this version names."""
        return {part.segment for part in self.parts()}

    def begin(self, came: bool) -> None:
        """Begin the version after a micro-batch, which may have had no rows for this bucket."""
        self.state = self.state or uuid.uuid4().hex
        self.number += came

    def renew(self) -> None:
        """Become a new version."""
        self.token = uuid.uuid4().hex
        self.before, self.metadata = self.metadata, f"{NEEDS}{self.state}-{self.number:010d}-{self.token}.json"

    def rebase(self, base: Part) -> list[Part]:
        """Start again from a new snapshot; return the parts that are no longer named."""
        before = self.parts()
        self.base, self.log, self.skipped = base, [], self.skipped + self.rows
        return self._dropped(before)

    def trim(self, rows: int) -> list[Part]:
        """Drop the base and the oldest micro-batches, as long as the others have so many rows; return their parts."""
        left, before = self.rows, self.parts()
        self.base = None
        while self.log and left - self.log[0].rows >= rows:
            gone = self.log.pop(0).rows
            left, self.skipped = left - gone, self.skipped + gone
        return self._dropped(before)

    def _dropped(self, before: list[Part]) -> list[Part]:
        names = self.names()
        lost = [part for part in before if part.segment not in names]
        if lost:
            self.dropped.append((self.number, sorted({part.segment for part in lost})))
        return lost

    def release(self, retain: int) -> list[str]:
        """Forget segments that were dropped so long ago that no version with them can come back; return them."""
        gone = [names for since, names in self.dropped if self.number - since > retain]
        self.dropped = [(since, names) for since, names in self.dropped if self.number - since <= retain]
        return [name for names in gone for name in names]

    def needed(self) -> set[str]:
        """Return the segments that this version or one that can still come back names."""
        return self.names().union(*(names for _, names in self.dropped))

    def to_bytes(self) -> bytes:
        """Return the manifest as it is kept: in the format of snapshots, with its version and checksum."""
        from topwatch.monitor.snapshot_format import pack

        log = [{"parts": batch.parts, "watermark": batch.watermark} for batch in self.log]
        return pack({"format": FORMAT, **vars(self), "log": log}, {})

    @classmethod
    def from_bytes(cls, data: bytes | None) -> Manifest:
        """Undo :meth:`to_bytes`; None is the state before the first row."""
        from topwatch.monitor.snapshot_format import unpack

        if data is None:
            return cls()
        try:
            header, _ = unpack(data)
        except DataError:
            header = {}
        if header.pop("format", None) != FORMAT:
            raise DataError(
                "state: what was kept is damaged, or no manifest that this version of topwatch reads. Go on with the"
                " version that wrote it, or start with a new checkpoint"
            )
        log = [MicroBatch([Part(*part) for part in batch["parts"]], batch["watermark"]) for batch in header["log"]]
        base = Part(*header["base"]) if header["base"] is not None else None
        dropped = [(int(since), list(names)) for since, names in header["dropped"]]
        return cls(**{**header, "base": base, "log": log, "dropped": dropped})

    @classmethod
    def of(cls, data: bytes | None, made_for: str, buckets: int) -> Manifest:
        """Return the manifest in the store; one of a state that was begun with something else is refused."""
        manifest = cls.from_bytes(data)
        if data is not None:
            check_partitions(manifest.buckets, buckets)
            if manifest.made_for != made_for:
                raise DataError(OTHERS)
        manifest.made_for, manifest.buckets = made_for, buckets
        return manifest


def check_partitions(begun: int, now: int) -> None:
    """Refuse to go on where groups would come to other buckets than those that have their windows."""
    if begun != now:
        raise DataError(
            f"checkpoint: it was begun with {PARTITIONS}={begun} and cannot go on with {now}; set it to {begun},"
            " or start with a new checkpoint"
        )
