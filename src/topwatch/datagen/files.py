"""Writes generated rows to a file of any length, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from topwatch.core.file_writer import whole_file
from topwatch.datagen import flows, generators
from topwatch.query.errors import QueryError

FLOWS = "flows"
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

    The kind ``flows`` has columns of its own: ``flow``, ``bytes``, ``packets`` and ``seconds``. The suffix of ``out``
    chooses the format; an open binary file gets CSV. ``progress`` gets the number of rows of each batch. A file appears
    under its name only when it is complete.

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
    schema = schema_of(kind, dims)
    with _writer(file, suffix, schema) as writer:
        for batch in _batches(kind, rows, dims, seed):
            writer.write_batch(batch)
            progress(batch.num_rows)


def schema_of(kind: str, dims: int) -> pa.Schema:
    """Return the columns of generated rows.

    >>> schema_of("ind", 2).names, schema_of("flows", 2).names
    (['id', 'x1', 'x2'], ['flow', 'bytes', 'packets', 'seconds'])
    """
    if kind == FLOWS:
        return flows.SCHEMA
    return pa.schema([("id", pa.int64()), *((f"x{i}", pa.float64()) for i in range(1, dims + 1))])


def rows_between(kind: str, dims: int, seed: int, start: int, stop: int) -> pa.RecordBatch:
    """Return the rows ``start`` to ``stop`` - 1 with their ids, without making those before them.

    >>> rows_between("ind", 1, 0, 7, 9).column("id").to_pylist()
    [8, 9]
    """
    if kind == FLOWS:
        return flows.part(seed, start, stop)
    columns = generators.part(kind, dims, seed, start, stop)
    return pa.record_batch([np.arange(start + 1, stop + 1), *columns], schema=schema_of(kind, dims))


def _batches(kind: str, rows: int, dims: int, seed: int) -> Iterator[pa.RecordBatch]:
    size = max(generators.BLOCK, _VALUES_PER_BATCH // max(len(schema_of(kind, dims)) - 1, 1))
    if kind == FLOWS:
        for start in range(0, rows, size):
            yield flows.part(seed, start, min(start + size, rows))
        return
    first = 1
    for part in generators.stream(kind, dims, seed, batch=size, rows=rows):
        count = part.shape[1]
        yield pa.record_batch([np.arange(first, first + count), *part], schema=schema_of(kind, dims))
        first += count


def _writer(file: IO[bytes], suffix: str, schema: pa.Schema) -> Any:
    if suffix == ".csv":
        from pyarrow import csv

        return csv.CSVWriter(file, schema)
    if suffix == ".arrow":
        return pa.ipc.new_file(file, schema)
    from pyarrow import parquet

    # Random values repeat so seldom that a dictionary only costs.
    return parquet.ParquetWriter(file, schema, use_dictionary=False, compression="snappy")
