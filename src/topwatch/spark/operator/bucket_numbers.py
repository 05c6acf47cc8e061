"""Which bucket a group of rows belongs to: by a hash of its key that never changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.core.grouping import indices_of, number_keys, scatter
from topwatch.core.hashing import hash_texts, mix_all

_NULL = np.uint64(0x9E3779B97F4A7C15)
_NOTHING = np.empty(0, np.int64)


def bucket_keys(partitions: int) -> tuple[int, ...]:
    """Return a number for each bucket so that Spark's hash puts each into a shuffle partition of its own.

    >>> bucket_keys(4)
    (12, 6, 2, 0)
    """
    result: dict[int, int] = {}
    number = 0
    while len(result) < partitions:
        result.setdefault(_spark_hash(number) % partitions, number)
        number += 1
    return tuple(result[partition] for partition in range(partitions))


def _spark_hash(number: int) -> int:
    """Return Spark's hash of a whole number of 32 bits: Murmur3 with the seed 42."""
    mask = 0xFFFFFFFF

    def rotated(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & mask

    mixed = rotated(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    hashed = (rotated(42 ^ mixed, 13) * 5 + 0xE6546B64) & mask
    hashed ^= 4  # bytes
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & mask
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & mask
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed


def bucket_numbers(table: pa.Table, by: tuple[str, ...], buckets: int) -> np.ndarray:
    """Return the number of each row's bucket; rows of one group have the same.

    >>> bucket_numbers(pa.table({"g": ["a", "b", None, "a"], "n": [1, 2, 3, 1]}), ("g", "n"), 4).tolist()
    [3, 1, 1, 3]
    """
    if len(by) == 1 and _plain(table.column(by[0])) and pa.types.is_integer(table.column(by[0]).type):
        numbers = np.empty(table.num_rows, np.int16 if buckets < 1 << 15 else np.int64)
        start = 0
        for chunk in table.column(by[0]).chunks:
            number_keys(_words(chunk).view(np.uint64), buckets, numbers[start : start + len(chunk)])
            start += len(chunk)
        return numbers
    total = np.zeros(table.num_rows, np.uint64)
    for name in by:
        total = mix_all(total ^ _hashes(table.column(name)))
    result: np.ndarray = (total % np.uint64(buckets)).astype(np.int16 if buckets < 1 << 15 else np.int64)
    return result


def apart(table: pa.Table, number: np.ndarray, buckets: int) -> list[pa.Table]:
    """Return the rows of each bucket, in order.

    >>> [part.column("n").to_pylist() for part in apart(pa.table({"n": [5, 6, 7]}), np.array([1, 0, 1], np.int16), 2)]
    [[6], [5, 7]]
    """
    index, start = indices_of(number, buckets)
    order: pa.Array | None = None
    columns = []
    for column in table.columns:
        if _plain(column):
            out = np.empty(len(column), np.int64)
            first = 0
            for chunk in column.chunks:
                scatter(_words(chunk), index, first, out)
                first += len(chunk)
            columns.append(pa.Array.from_buffers(column.type, len(column), [None, pa.py_buffer(out)]))
        else:
            if order is None:
                back = np.empty(index.size, np.int64)
                back[index] = np.arange(index.size)
                order = pa.array(back)
            columns.append(column.take(order))
    sorted_rows = pa.table(columns, schema=table.schema)
    return [sorted_rows.slice(start[b], start[b + 1] - start[b]) for b in range(buckets)]


def _plain(column: pa.ChunkedArray) -> bool:
    """Return whether values are eight bytes each, and none is missing."""
    kind = column.type
    fixed = pa.types.is_primitive(kind) and kind.bit_width == 64
    return fixed and not column.null_count


def _words(chunk: pa.Array) -> np.ndarray:
    """Return values of eight bytes as whole numbers, without copying them."""
    values = np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), 8 * chunk.offset) if len(chunk) else _NOTHING
    values.flags.writeable = False  # so that kernels are compiled once
    return values


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
        indices = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        hashes = np.empty(len(texts), np.uint64)
        hash_texts(indices, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), hashes)
    mixed = mix_all(hashes)
    if values.null_count:
        mixed = np.where(values.is_null().to_numpy(zero_copy_only=False), _NULL, mixed)
    return mixed


def _whole(values: pa.Array) -> np.ndarray:
    if pa.types.is_date32(values.type) or pa.types.is_time32(values.type):
        values = pc.cast(values, pa.int32())
    numbers = pc.fill_null(pc.cast(values, pa.int64(), safe=False), 0).to_numpy(zero_copy_only=False)
    result: np.ndarray = np.ascontiguousarray(numbers)
    return result
