"""What a pipeline's checkpoint was begun with: looked up before Spark starts.

Spark's state knows what it was made for, and refuses rows under other queries; but it is asked only when rows come. So
the queries, the window and the settings are also recorded in a small file of the checkpoint, when its first micro-batch
has not been committed. Where there is no such file, or it cannot be read, the state has the last word.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

import pyarrow as pa

from topwatch.monitor.serialization import describe_query
from topwatch.query.errors import DataError
from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.state.folder import files_in, open_folder, write_whole
from topwatch.spark.state.manifest import OTHERS, PARTITIONS

FILE = "begun-with.json"
FORMAT = 1


def changes_of(pipeline: Pipeline) -> str | None:
    """Return the folder of Spark's own checkpoint for the changes; None where there is none."""
    return f"{pipeline.checkpoint.rstrip('/')}/changes" if pipeline.checkpoint is not None else None


def check_begun(pipeline: Pipeline) -> None:
    """Refuse to go on with a checkpoint that was begun with other queries, another window or other settings.

    Raises
    ------
    DataError
        With the message that the state has for it.
    """
    if pipeline.checkpoint is None or not _has_begun(pipeline):
        return
    content = None
    with suppress(OSError, pa.ArrowException, ValueError):
        system, root = open_folder(pipeline.checkpoint)
        with system.open_input_file(f"{root.rstrip('/')}/{FILE}") as file:
            content = json.loads(file.read())
    if isinstance(content, dict) and content.get("format") == FORMAT and content.get("made_for") != made_for(pipeline):
        raise DataError(OTHERS)


def record(pipeline: Pipeline) -> None:
    """Record what a checkpoint is begun with, unless a micro-batch has been committed: then that has been recorded."""
    if pipeline.checkpoint is not None and not _has_begun(pipeline):
        content = json.dumps({"format": FORMAT, "made_for": made_for(pipeline)})
        write_whole(pipeline.checkpoint, FILE, [content.encode()])


def made_for(pipeline: Pipeline) -> str:
    """Return a digest of what the state depends on, as far as the pipeline's file says it.

    The fingerprint of the state has all of this, and what only Spark knows, such as types.
    """
    monitor = pipeline.monitor()
    meaning = {
        "queries": [{**describe_query(query), "name": query.name} for query in monitor.queries],
        "settings": monitor.settings.save(),
        "emit": pipeline.emit,
    }
    return hashlib.sha256(json.dumps(meaning, sort_keys=True, default=str).encode()).hexdigest()[:16]


def partitions_of(checkpoint: str) -> str | None:
    """Return the number of partitions that a checkpoint was begun with; None where nothing has begun."""
    system, root = open_folder(f"{checkpoint}/offsets")
    batches = [int(name) for name in files_in(f"{checkpoint}/offsets") if name.isdecimal()]
    if not batches:
        return None
    with system.open_input_file(f"{root}/{max(batches)}") as file:
        _, metadata, *_ = file.read().decode().splitlines()
    kept: str | None = json.loads(metadata).get("conf", {}).get(PARTITIONS)
    return kept


def _has_begun(pipeline: Pipeline) -> bool:
    """Return whether a micro-batch has been committed: before that there is no state."""
    return any(name.isdecimal() for name in files_in(f"{changes_of(pipeline)}/commits"))
