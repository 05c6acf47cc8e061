"""The quarantine: rows that could not be used, with the reason and the row as it came.

A micro-batch that is tried again writes the same rows to the same name, so that nothing is there twice.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from topwatch.spark.segments import open_folder


def write_refused(uri: str, batch: int, bucket: int, parts: list[pa.Table]) -> None:
    """Write what a bucket refused in a micro-batch."""
    parts = [part for part in parts if part.num_rows]
    if not parts:
        return
    table = pa.concat_tables(parts).append_column(
        "batch", pa.array([batch] * sum(p.num_rows for p in parts), pa.int64())
    )
    system, root = open_folder(uri)
    system.create_dir(root, recursive=True)
    name = f"part-{batch:010d}-{bucket}.parquet"
    if isinstance(system, pafs.LocalFileSystem):
        scratch = os.path.join(root, f".{name}.{os.getpid()}")
        pq.write_table(table, scratch)
        os.replace(scratch, os.path.join(root, name))
    else:
        pq.write_table(table, f"{root}/{name}", filesystem=system)
