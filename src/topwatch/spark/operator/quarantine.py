"""The quarantine: rows that could not be used, with the reason and the row as it came.

A micro-batch that is tried again writes the same rows to the same name, so that nothing is there twice.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq

from topwatch.spark.state.file_writer import write_whole
from topwatch.spark.stream_spec import Spec


def write_refused(spec: Spec, number: int, bucket: int, parts: list[pa.Table], batch: int | None = None) -> None:
    """Write what a bucket refused in a micro-batch.

    Parameters
    ----------
    spec : Spec
        What is watched, with the folder.
    number, bucket : int
        How many micro-batches the bucket has had, and which bucket it is: with the rows they make the file's name.
    parts : list of Arrow tables
        Columns ``reason`` and ``raw``.
    batch : int, optional
        The micro-batch's number, for people to look at.
    """
    parts = [part for part in parts if part.num_rows]
    if not parts or spec.quarantine is None:
        return
    table = pa.concat_tables(parts).combine_chunks()
    words = [spec.fingerprint(), *table.column("reason").to_pylist(), *table.column("raw").to_pylist()]
    digest = hashlib.sha256("\0".join(words).encode())
    table = table.append_column("batch", pa.array([batch] * table.num_rows, pa.int64()))
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    name = f"part-{number:010d}-{bucket}-{digest.hexdigest()[:16]}.parquet"
    write_whole(spec.quarantine, name, [buffer.getvalue().to_pybytes()])
