"""Writes generated rows to a file of any length, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from topwatch.core.file_writer import whole_file
from topwatch.datagen import generators
from topwatch.query.errors import QueryError

FORMATS = (".parquet", ".csv", ".arrow")
_VALUES_PER_BATCH = 2**20


def write(
    out: Path | IO[bytes],
    kind: str,
    rows: int,
    dims: int,
    seed: int = 0,
    *,
    force: bool = False,
    progress: Callable[[int], None] = lambda rows: None,
) -> None:
    """Write ``rows`` rows with columns ``id`` (1, 2, 3 ...) and ``x1 .. xd``; memory does not grow with ``rows``.

    The suffix of ``out`` chooses the format; an open binary file gets CSV. ``progress`` gets the number
    of rows of each batch. A file appears under its name only when it is complete.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.csv")
    ...     write(path, "ind", rows=2, dims=1, seed=7)
    ...     print(path.read_text().splitlines()[0])
    "id","x1"
    """
    if not isinstance(out, Path):
        _write(out, ".csv", kind, rows, dims, seed, progress)
        return
    if out.suffix not in FORMATS:
        raise QueryError(f"out: {out.name!r} ends in none of the accepted {', '.join(FORMATS)}")
    if out.is_dir():
        raise QueryError(f"out: {str(out)!r} is a folder; accepted is the name of a file")
    if not out.parent.is_dir():
        raise QueryError(f"out: there is no folder {str(out.parent)!r} to write {out.name!r} to")
    if out.exists() and not force:
        raise QueryError(f"out: {str(out)!r} exists already; --force replaces it")
    with whole_file(str(out), sync=False) as file:
        _write(file, out.suffix, kind, rows, dims, seed, progress)


def _write(
    file: IO[bytes], suffix: str, kind: str, rows: int, dims: int, seed: int, progress: Callable[[int], None]
) -> None:
    batch = max(generators.BLOCK, _VALUES_PER_BATCH // max(dims, 1))
    columns = generators.stream(kind, dims, seed, batch=batch, rows=rows)
    schema = pa.schema([("id", pa.int64()), *((f"x{i}", pa.float64()) for i in range(1, dims + 1))])
    first = 1
    with _writer(file, suffix, schema) as writer:
        for part in columns:
            count = part.shape[1]
            ids = np.arange(first, first + count)
            writer.write_batch(pa.record_batch([ids, *part], schema=schema))
            first += count
            progress(count)


def _writer(file: IO[bytes], suffix: str, schema: pa.Schema) -> Any:
    if suffix == ".csv":
        from pyarrow import csv

        return csv.CSVWriter(file, schema)
    if suffix == ".arrow":
        return pa.ipc.new_file(file, schema)
    from pyarrow import parquet

    # Random values repeat so seldom that a dictionary only costs.
    return parquet.ParquetWriter(file, schema, use_dictionary=False, compression="snappy")
