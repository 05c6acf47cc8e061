"""A bucket's state after each micro-batch, a small file beside the segments: which of them counts, Spark decides.

Spark numbers micro-batches, notes down what each one reads before it runs, and runs one again with the same rows until
it is committed. So the state after micro-batch n is version n: who takes n + 1 begins with the last version before it,
and an attempt that fails or is killed leaves a version behind that the next attempt replaces. Spark's own state stores
work like this too; here no operator of Spark's with a state is needed, which costs more than the rows do (decision 17).

A bucket without rows has no new version, so that the last one need not be that of the micro-batch before. Which it was
is noted down too, where a bucket says which segments it needs: a version that is missing is an error, never an older
state.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow.fs as pafs
import xxhash

from topwatch.errors import DataError
from topwatch.spark.bulk import check_partitions
from topwatch.spark.manifest import OTHERS
from topwatch.spark.notes import names, publish, recall, replace
from topwatch.spark.segments import open_folder

MAGIC = b"topver\x01\x00"
SUFFIX = ".state"
_HEAD = struct.Struct("<8sQQQ")  # magic, checksum of what follows, bytes of the manifest, bytes of what is kept beside
_NOTHING = (1 << 64) - 1  # nothing is kept beside the manifest

_BEGUN = "begun-"

Value = tuple[bytes, bytes | None]


def begin(uri: str, made_for: str, buckets: int, batch: int) -> None:
    """Note down in the first micro-batch that there is a state, and how it is spread; later, see that it is the same.

    Whoever takes part in a micro-batch calls this, rows or not: where the note is missing later, the folder is not the
    one that the checkpoint was begun with.
    """
    name = f"{_BEGUN}{made_for}.json"
    said = recall(uri, name)
    if said is not None:
        check_partitions(said["buckets"], buckets)
    elif batch == 0:
        publish(uri, name, {"buckets": buckets})
    elif names(uri, _BEGUN):
        raise DataError(OTHERS)
    else:
        raise DataError(
            f"state: there is none in {uri}, though micro-batch {batch} goes on from one."
            " Put the folder back, or start with a new checkpoint and an empty sink"
        )


class Versions:
    """The versions of one bucket's state.

    Parameters
    ----------
    uri : str
        The folder of the segments.
    made_for : str
        Fingerprint of what is watched: one folder may serve several watched streams of a query.
    bucket : int
        Which bucket.
    """

    def __init__(self, uri: str, made_for: str, bucket: int) -> None:
        self._uri = uri
        self._system, self._root = open_folder(uri)
        self._stem = f"{made_for}-{bucket}"

    def before(self, batch: int, said: Callable[[], dict[str, Any] | None]) -> Value | None:
        """Return the version that a micro-batch begins with; None before the first.

        Parameters
        ----------
        batch : int
            The micro-batch.
        said : function
            Returns what the bucket has noted down last: the micro-batch of its version, and of the one before it.
        """
        found = self.read(batch - 1)
        if found is not None:
            return found
        last = max((number for number in self.numbers() if number < batch), default=-1)
        noted = said() or {"batch": -1}
        least = next((noted[name] for name in ("batch", "before") if noted[name] < batch), -1)
        found = self.read(last) if last >= least else None
        if found is None and least >= 0:
            raise DataError(
                f"state: {self._name(least)} is missing from {self._uri}, and micro-batch {batch} goes on from it."
                " Put it back, or start with a new checkpoint"
            )
        return found

    def read(self, batch: int) -> Value | None:
        """Return a version, or None where there is none of this micro-batch; a damaged one is an error."""
        name = self._name(batch)
        try:
            with self._system.open_input_file(f"{self._root}/{name}") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        if data[: len(MAGIC)] != MAGIC:
            raise DataError(f"state: {name} in {self._uri} is no state, or one of another version of topwatch")
        rest = data[_HEAD.size :]
        _, check, size, kept = _HEAD.unpack_from(data.ljust(_HEAD.size, b"\0"))
        if len(rest) != size + (0 if kept == _NOTHING else kept) or xxhash.xxh3_64_intdigest(rest) != check:
            raise DataError(
                f"state: {name} in {self._uri} is damaged: its checksum does not match."
                " Put a good copy in its place, or start with a new checkpoint"
            )
        return rest[:size], None if kept == _NOTHING else rest[size:]

    def write(self, batch: int, value: Value) -> None:
        """Keep the state after a micro-batch, safely; what an earlier attempt has left is replaced."""
        manifest, kept = value
        rest = manifest + (kept or b"")
        check = xxhash.xxh3_64_intdigest(rest)
        data = _HEAD.pack(MAGIC, check, len(manifest), _NOTHING if kept is None else len(kept)) + rest
        replace(self._uri, self._name(batch), data)

    def numbers(self) -> list[int]:
        """Return the micro-batches of which there are versions."""
        found = self._system.get_file_info(pafs.FileSelector(self._root, allow_not_found=True))
        names = [info.base_name for info in found]
        return sorted(_number(name) for name in names if name.endswith(SUFFIX) and name.startswith(f"{self._stem}-"))

    def _name(self, batch: int) -> str:
        return f"{self._stem}-{batch:010d}{SUFFIX}"


def _number(name: str) -> int:
    return int(name.removesuffix(SUFFIX).rpartition("-")[2])


def drop_old(uri: str, batch: int) -> None:
    """Remove the versions before a micro-batch, but for the last one of each bucket."""
    system, root = open_folder(uri)
    found = system.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    for name, following in pairwise(sorted(info.base_name for info in found if info.base_name.endswith(SUFFIX))):
        same = name.rpartition("-")[0] == following.rpartition("-")[0]
        if same and _number(following) < batch:
            try:
                system.delete_file(f"{root}/{name}")
            except FileNotFoundError:
                continue
