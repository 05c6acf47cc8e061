"""Which bucket a group of rows belongs to: by a hash of its key that never changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.kernels.hashing import hash_texts

_NULL = np.uint64(0x9E3779B97F4A7C15)


def bucket_numbers(table: pa.Table, by: tuple[str, ...], buckets: int) -> np.ndarray:
    """Return the number of each row's bucket; rows of one group have the same.

    >>> bucket_numbers(pa.table({"g": ["a", "b", None, "a"], "n": [1, 2, 3, 1]}), ("g", "n"), 4).tolist()
    [3, 1, 1, 3]
    """
    total = np.zeros(table.num_rows, np.uint64)
    for name in by:
        total = _mixed(total ^ _hashes(table.column(name)))
    found: np.ndarray = (total % np.uint64(buckets)).astype(np.uint8 if buckets <= 256 else np.int64)
    return found  # short numbers sort fast


def _hashes(values: Any) -> np.ndarray:
    values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    kind = values.type
    if pa.types.is_floating(kind):
        numbers = pc.fill_null(pc.cast(values, pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0  # no -0.0
        numbers[np.isnan(numbers)] = np.nan  # one of them
        hashes = numbers.view(np.uint64)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        hashes = _whole(values).view(np.uint64)
    else:
        texts = pc.fill_null(pc.cast(values, pa.large_binary() if pa.types.is_binary(kind) else pa.large_string()), "")
        _, offsets, data = texts.buffers()
        places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        hashes = np.empty(len(texts), np.uint64)
        hash_texts(places, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), hashes)
    hashes = _mixed(hashes)
    if values.null_count:
        hashes = np.where(values.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def _whole(values: pa.Array) -> np.ndarray:
    if pa.types.is_date32(values.type) or pa.types.is_time32(values.type):
        values = pc.cast(values, pa.int32())
    numbers = pc.fill_null(pc.cast(values, pa.int64(), safe=False), 0).to_numpy(zero_copy_only=False)
    found: np.ndarray = np.ascontiguousarray(numbers)
    return found


def _mixed(values: np.ndarray) -> np.ndarray:
    """Spread values over all bits (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: np.ndarray = values ^ (values >> np.uint64(31))
    return found
