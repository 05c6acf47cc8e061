"""The status of a running query: a small file beside the segments that each bucket replaces in every micro-batch.

It is for display only: it is not synced, and what cannot be read is left out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from topwatch.spark.state.folder import files_in, open_folder, write_whole

PREFIX, SUFFIX = "status-", ".json"


class Answer(NamedTuple):
    """The answer of a query, or its head, in a group."""

    by: tuple[Any, ...]  # the group; empty where there are none
    query: str
    rows: tuple[tuple[Any, float | None], ...]  # id and score, the best first


@dataclass(frozen=True)
class Status:
    """The status of one bucket, or of all of them together.

    Attributes
    ----------
    batch : int
        The last micro-batch.
    rows, late, refused : int
        So far: rows taken in, rows that came too late, rows without an id or a time.
    live, bytes : int
        Rows that the windows hold, and the size of the state.
    answers : tuple of Answer
        Of a few groups, those that changed last first.
    """

    batch: int = -1
    rows: int = 0
    late: int = 0
    refused: int = 0
    live: int = 0
    bytes: int = 0
    answers: tuple[Answer, ...] = ()


_NUMBERS = tuple(field.name for field in dataclasses.fields(Status) if field.name != "answers")


def write_status(folder: str, query: str | None, bucket: int, status: Status) -> None:
    """Replace the file of a bucket of a query, if the folder can be written to."""
    content = {**vars(status), "answers": [answer._asdict() for answer in status.answers]}
    data = json.dumps(content, default=str).encode()
    with suppress(OSError, pa.ArrowException):
        write_whole(folder, f"{_start(query)}{bucket}{SUFFIX}", [data], sync=False)


def read_status(folder: str, query: str | None) -> Status | None:
    """Return the status of all buckets of a query together, or None where nothing is known yet."""
    try:
        system, root = open_folder(folder)
        names = sorted(files_in(folder))
    except (OSError, pa.ArrowException):
        return None
    mine = [name for name in names if name.startswith(_start(query)) and name.endswith(SUFFIX)]
    read = (_read(system, f"{root}/{name}") for name in mine)
    return _together([status for status in read if status is not None])


def _start(query: str | None) -> str:
    return f"{PREFIX}{query or 'unknown'}-"


def _read(system: pafs.FileSystem, path: str) -> Status | None:
    try:
        with system.open_input_file(path) as file:
            content = json.loads(file.read())
    except (OSError, pa.ArrowException, ValueError):
        return None  # gone, or being replaced where that is not atomic
    if not isinstance(content, dict):
        return None
    numbers = {name: content[name] for name in _NUMBERS if type(content.get(name)) is int}
    return Status(**numbers, answers=tuple(_answers(content.get("answers"))))


def _answers(result: Any) -> Iterable[Answer]:
    for answer in result if isinstance(result, list) else []:
        try:
            rows = tuple((id, None if score is None else float(score)) for id, score in answer["rows"])
            yield Answer(tuple(answer["by"]), str(answer["query"]), rows)
        except (KeyError, TypeError, ValueError):
            continue


def _together(buckets: list[Status]) -> Status | None:
    if not buckets:
        return None
    sums = {name: sum(getattr(status, name) for status in buckets) for name in _NUMBERS}
    # What changed last comes first: buckets that have had rows lately before others, and each one's newest first.
    lately = sorted(buckets, key=lambda status: -status.batch)
    newest_first = chain.from_iterable(zip_longest(*(status.answers for status in lately)))
    return Status(
        **{**sums, "batch": max(status.batch for status in buckets)},
        answers=tuple(answer for answer in newest_first if answer is not None),
    )
