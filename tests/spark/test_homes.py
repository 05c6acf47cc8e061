"""The folder of segments: what a version of the state names stays, whoever wrote it; what none names goes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from topwatch.spark.homes import FolderHome
from topwatch.spark.manifest import Manifest, Turn
from topwatch.spark.segments import Folder, Part

MADE_FOR = "abc"
RETAIN = 2
ROWS = pa.py_buffer(b"rows")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


def naming(batch: int, part: Part) -> Manifest:
    return Manifest(batch=batch, before=batch - 1, log=[Turn([part], None)])


def test_a_bucket_cleans_up_where_the_first_one_has_no_rows(folder: Folder) -> None:
    home = FolderHome(folder, MADE_FOR, 5)
    orphan, kept = home.put(0, ROWS), home.put(0, ROWS)
    for batch in range(9):
        assert orphan.segment in folder.names()
        home.tidy(naming(batch, kept), RETAIN)
    assert folder.names() == [kept.segment]


def test_an_attempt_that_was_given_up_takes_nothing_from_the_one_that_counts(folder: Folder) -> None:
    """Spark may try a task again while the first attempt still runs, and either version may be the one it keeps."""
    home = FolderHome(folder, MADE_FOR, 5)
    first, second = home.put(7, ROWS), home.put(7, ROWS)
    home.tidy(naming(7, second), RETAIN)
    home.tidy(naming(7, first), RETAIN)
    FolderHome(folder, MADE_FOR, 3).tidy(Manifest(batch=8), RETAIN)
    assert folder.names() == sorted([first.segment, second.segment])

    home.tidy(naming(9, second), RETAIN)
    FolderHome(folder, MADE_FOR, 3).tidy(Manifest(batch=16), RETAIN)
    assert folder.names() == [second.segment], "a later version says which of them counted"


def test_two_watched_streams_of_a_query_leave_each_other_what_they_need(folder: Folder) -> None:
    one, other = FolderHome(folder, "one", 0), FolderHome(folder, "other", 0)
    mine, theirs = one.put(0, ROWS), other.put(0, ROWS)
    other.tidy(naming(0, theirs), RETAIN)
    for batch in range(17):
        one.tidy(naming(batch, mine), RETAIN)
    assert folder.names() == sorted([mine.segment, theirs.segment])
