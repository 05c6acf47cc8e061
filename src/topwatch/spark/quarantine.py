"""The quarantine: rows that could not be used, with the reason and the row as it came.

A micro-batch that is tried again writes the same rows to the same name, so that nothing is there twice.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq

from topwatch.spark.files import write_whole


def write_refused(uri: str, stamp: int, bucket: int, parts: list[pa.Table], batch: int | None = None) -> None:
    """Write what a bucket refused in a micro-batch.

    Parameters
    ----------
    uri : str
        The folder.
    stamp : int
        The micro-batch's timestamp: with the bucket and the rows it makes the file's name.
    bucket : int
        Which bucket.
    parts : list of Arrow tables
        Columns ``reason`` and ``raw``.
    batch : int, optional
        The micro-batch's number, for people to look at.
    """
    parts = [part for part in parts if part.num_rows]
    if not parts:
        return
    table = pa.concat_tables(parts).combine_chunks()
    digest = hashlib.sha256("\0".join(table.column("reason").to_pylist() + table.column("raw").to_pylist()).encode())
    table = table.append_column("batch", pa.array([batch] * table.num_rows, pa.int64()))
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    name = f"part-{stamp:013d}-{bucket}-{digest.hexdigest()[:16]}.parquet"
    write_whole(uri, name, [buffer.getvalue().to_pybytes()])
