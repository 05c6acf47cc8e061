"""Small data sets with known results, written as the real ones are, and how a prepared stream is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topwatch.spark.datasets.catalogue import COVER_ATTRIBUTES

START = datetime(2007, 1, 1, tzinfo=UTC)


def stamps(*seconds: float | None) -> pa.Array:
    """Times as the files have them: nanoseconds without a zone."""
    naive = [None if s is None else (START + timedelta(seconds=s)).replace(tzinfo=None) for s in seconds]
    return pa.array(naive, pa.timestamp("ns"))


def put(folder: Path, name: str, table: pa.Table, rows: int = 4) -> Path:
    """Write a file with several row groups, so that Spark can cut it."""
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=rows)
    return folder


def got(folder: Path) -> dict[str, list[Any]]:
    """Read a stream file by file, in the order of names, which must be that of times."""
    files = sorted(folder.glob("*.parquet"))
    ages = [file.stat().st_mtime for file in files]
    assert ages == sorted(set(ages)), "times rise from file to file"
    result: dict[str, list[Any]] = pa.concat_tables([pq.read_table(file) for file in files]).to_pydict()
    assert result["position"] == list(range(len(result["position"])))
    return result


def seconds(times: list[datetime]) -> list[float]:
    return [(time - START).total_seconds() for time in times]


COVTYPE = {
    "id": pa.array([0, 1, 2, 3, 4, 5], pa.int32()),
    **{
        name: pa.array([base, base + 4, base + 1, base + 2, base + 3, base], pa.int32())
        for base, name in enumerate(COVER_ATTRIBUTES)
    },
    "cover": pa.array([5, 5, 2, 1, 7, 3], pa.int8()),
}


def luce(count: int, rng: np.random.Generator) -> pa.Table:
    """Rows by time, several of a moment, with a glitch and holes."""
    volts = rng.random((4, count)).astype(np.float32)
    volts[0, 7] = 87.0
    holes = rng.random((4, count)) < 0.02
    names = ["primary_voltage", "secondary_voltage", "solar_current", "global_current"]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int32()),
            "station": pa.array(rng.integers(0, 5, count), pa.int16()),
            "time": stamps(*(n // 2 for n in range(count))),
            **{name: pa.array(volts[i], pa.float32(), mask=holes[i]) for i, name in enumerate(names)},
        }
    )


FLIGHTS = pa.table(
    {
        "time": stamps(60, 60, 120, 3540, 3600, 3660, 3660, 7200),
        "carrier": ["UA"] * 8,
        "flight": pa.array(range(8), pa.int64()),
        "tailnum": ["N2", "N1", None, "N1", "N1", "N2", "N1", "N1"],
        "origin": ["EWR", "EWR", "LGA", "EWR", "EWR", "JFK", "JFK", "EWR"],
        "dest": ["IAH"] * 8,
        "dep_delay": pa.array([5, -2, None, 8, 7, None, 1, 18], pa.float32()),
        "arr_delay": pa.array([1, None, None, 1, 1, 1, 1, 1], pa.float32()),
        "air_time": pa.array([1.0] * 8, pa.float32()),
        "distance": pa.array([1.0] * 8, pa.float32()),
    }
)


REQUESTS = pa.table(
    {
        "time": stamps(0, 10, 29, 30, 45, 100),
        "client": pa.array([7, 7, 3, 7, 3, 3], pa.int64()),
        "url": ["/", "/a.GIF", "/b.jpg?x=1.html", "/cgi-bin/t.pl?ENG", "/film.mov", "/x/y.html"],
        "status": pa.array([200, 304, 200, None, 200, 200], pa.float64()),
        "size": pa.array([10, 0, None, 5, None, 8], pa.float64()),
    }
)
