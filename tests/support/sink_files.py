"""The rows of a Parquet sink as Spark reads them: only files that its log names count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq


def named(out: Path) -> list[Path]:
    """Return the files that the log names: those of its last summary, and of the micro-batches since."""
    logs = {}
    for path in (out / "_spark_metadata").iterdir():
        number = path.name.removesuffix(".compact")
        if number.isdecimal():
            logs[int(number)] = path
    summaries = [number for number, path in logs.items() if path.suffix == ".compact"]
    result = []
    for number in sorted(logs):
        if number >= max(summaries, default=0):
            version, *lines = logs[number].read_text().splitlines()
            assert version == "v1", f"{logs[number]}: unknown version {version!r}"
            result += [Path(unquote(urlparse(json.loads(line)["path"]).path)) for line in lines]
    return result


def rows(out: Path) -> list[tuple[Any, ...]]:
    """Return the rows of the sink."""
    return [
        line
        for path in named(out)
        for line in zip(*(column.to_pylist() for column in pq.read_table(path).columns), strict=True)
    ]


def unnamed(out: Path) -> set[str]:
    """Return the files that do not count: attempts that were cut short wrote them."""
    return {path.name for path in out.glob("*.parquet")} - {path.name for path in named(out)}
