"""The folder of segments: what a version of the state names stays, whoever wrote it; what none names goes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from topwatch.spark.homes import FolderHome
from topwatch.spark.manifest import Manifest, Turn
from topwatch.spark.segments import Folder, Part

BUCKETS = (3, 5)
RETAIN = 2
ROWS = pa.py_buffer(b"rows")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


def naming(part: Part) -> Manifest:
    return Manifest(log=[Turn([part], None)])


def test_a_bucket_cleans_up_where_the_first_one_has_no_rows(folder: Folder) -> None:
    home = FolderHome(folder, 5, BUCKETS)
    orphan, kept = home.put(0, ROWS), home.put(0, ROWS)
    for batch in range(9):
        assert orphan.segment in folder.names()
        home.tidy(batch, naming(kept), RETAIN)
    assert folder.names() == [kept.segment]


def test_an_attempt_that_was_given_up_takes_nothing_from_the_one_that_counts(folder: Folder) -> None:
    """Spark may try a task again while the first attempt still runs, and either version may be the one it keeps."""
    home = FolderHome(folder, 5, BUCKETS)
    first, second = home.put(7, ROWS), home.put(7, ROWS)
    home.tidy(7, naming(second), RETAIN)
    home.tidy(7, naming(first), RETAIN)
    FolderHome(folder, 3, BUCKETS).tidy(8, Manifest(), RETAIN)
    assert folder.names() == sorted([first.segment, second.segment])

    home.tidy(9, naming(second), RETAIN)
    FolderHome(folder, 3, BUCKETS).tidy(16, Manifest(), RETAIN)
    assert folder.names() == [second.segment], "a later version says which of them counted"
