"""Times of batches: timestamps as nanoseconds, numbers as seconds."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np

from topwatch.query.errors import DataError

NANOSECONDS = "timestamps"
SECONDS = "numbers (seconds)"


def times_of(name: str, values: Any) -> tuple[np.ndarray, str]:
    """Return a column of times, NumPy's numbers or an Arrow array, as numbers, and their kind."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        times = values.astype(np.float64, copy=False)
    else:
        import pyarrow as pa

        array = values
        if array.null_count:
            raise DataError(f"batch: time column {name!r} has {array.null_count} nulls; every row needs a time")
        if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
            try:
                stamps = array.cast(pa.timestamp("ns", getattr(array.type, "tz", None)))
            except pa.ArrowInvalid:
                raise DataError(f"batch: time column {name!r} has a time outside the years 1678 to 2261") from None
            return stamps.cast(pa.int64()).to_numpy(zero_copy_only=False), NANOSECONDS
        if not (pa.types.is_floating(array.type) or pa.types.is_integer(array.type)) and len(array):
            raise DataError(f"batch: time column {name!r} is {array.type}; expected timestamps or numbers (seconds)")
        times = np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
    if not np.isfinite(times).all():
        raise DataError(f"batch: time column {name!r} has a value that is no finite number; every row needs a time")
    return times, SECONDS


def moment(path: str, time: Any) -> tuple[float, str]:
    """Return a single time as a number, and its kind."""
    if isinstance(time, bool | datetime.timedelta | np.timedelta64) or time is None:
        raise DataError(f"{path}: expected a timestamp or a number (seconds), got {time!r}")
    if isinstance(time, int | float | np.integer | np.floating):
        try:
            number = float(time)
        except OverflowError:  # of a whole number that is larger than any float
            number = math.inf
        if not math.isfinite(number):
            raise DataError(f"{path}: expected a finite number, got {time!r}")
        return number, SECONDS
    try:
        if isinstance(time, datetime.datetime) and time.tzinfo is not None:
            time = time.astimezone(datetime.UTC).replace(tzinfo=None)
        stamp = np.datetime64(time, "ns")
    except (ValueError, TypeError):
        raise DataError(f"{path}: expected a timestamp or a number (seconds), got {time!r}") from None
    if np.isnat(stamp):
        raise DataError(f"{path}: expected a timestamp or a number (seconds), got {time!r}")
    return int(stamp.astype(np.int64)), NANOSECONDS
