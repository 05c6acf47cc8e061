"""A bucket's turn in a micro-batch: its state and what came in, what is emitted and its state after it.

Two operators call it: one whose state is a file for each micro-batch (:mod:`topwatch.spark.step`), and one whose state
is in Spark's store (:mod:`topwatch.spark.processor`). The state is a manifest, and beside it what a pruned stream
keeps.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from topwatch.spark.worker import here, settle

if TYPE_CHECKING:
    from topwatch.spark.keeper import Done
    from topwatch.spark.spec import Spec

ROWS = 1 << 14  # rows of a result that are handed on at once: memory of this size is used again


def value_of(spec: Spec) -> str:
    """Return what the value in the store is, in Spark's words. One value: each more costs some milliseconds."""
    return "manifest binary, kept binary" if spec.pruned else "manifest binary"


def take_turn(
    spec: Spec,
    bucket: int,
    held: tuple[Any, ...] | None,
    references: list[dict[str, Any]],
    watermark: int | None = None,
    pieces: Any = None,
) -> tuple[Done, tuple[Any, ...]]:
    """Take a micro-batch's references; return what came of it, and the value for the store.

    Parameters
    ----------
    spec : Spec
        What is watched.
    bucket : int
        Which bucket.
    held : tuple or None
        The value in the store.
    references : list of dict
        What the bulk step has sent.
    watermark : int or None
        In milliseconds, where rows wait for it.
    pieces : map state or None
        Where segments are, if they have no folder.
    """
    from topwatch.spark.homes import FolderHome, StoreHome
    from topwatch.spark.keeper import Keeper, Task
    from topwatch.spark.neighbours import advance
    from topwatch.spark.segments import Folder

    settle()
    query, batch = here()
    state, kept = (*(held or ()), None, None)[:2]
    kept = bytes(kept) if spec.pruned and kept is not None else None
    task = Task(bytes(state) if state is not None else None, references, batch, watermark, kept=kept)
    if spec.segments is None:
        done = Keeper(spec, query, bucket, StoreHome(pieces)).advance(task)
    else:
        folder = spec.folder(query)
        made_for = spec.fingerprint()
        keeper = Keeper(spec, f"{query}-{made_for}", bucket, FolderHome(Folder(folder), made_for, bucket))
        # Two queries may have one id, if a checkpoint was copied; their folders differ.
        name = f"{query}-{made_for}-{bucket}-{zlib.crc32(folder.encode()):08x}"
        done = keeper.advance(task) if spec.pruned else advance(keeper, name, task)
    return done, (done.state, done.kept) if spec.pruned else (done.state,)
