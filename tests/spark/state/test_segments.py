"""Segments on a file system that is not local."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from topwatch.query.errors import DataError
from topwatch.spark.state import folder, segments
from topwatch.spark.state.segments import Folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder on a file system that is not local: one that can rename, but whose streams show what they have."""
    system = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    for module in (folder, segments):
        monkeypatch.setattr(module, "open_folder", lambda uri: (system, "deep/segments"))
    return Folder("far://deep/segments")


def test_segments_lie_there_as_they_do_here(elsewhere: Folder, tmp_path: Path) -> None:
    def written() -> list[segments.Part]:
        segment = elsewhere.create("0000005-p00000")
        parts = [segment.add_table(pa.table({"x": list(range(n))})) for n in (0, 10, 1000)]
        name = segment.close()
        return [part._replace(segment=name) for part in parts]

    parts = written()
    assert [path.name for path in tmp_path.rglob("*.seg")] == [parts[0].segment]
    assert written() == parts, "run again, it is the same file"
    for part, rows in zip(parts, (0, 10, 1000), strict=True):
        assert segments.unpack(elsewhere.read(part)).num_rows == rows
    elsewhere.check(parts)
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    whole = path.read_bytes()
    end = parts[2].start + segments.HEADER + parts[2].size
    assert end <= len(whole) < end + segments.HEADER, "behind the last part there is padding only"
    for length in [*range(0, end, 97), end - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=f"{path.name} in far://.* is damaged or too short"):
            elsewhere.read(parts[2])
        with pytest.raises(DataError, match=f"{path.name}.*bytes of at least"):
            elsewhere.check(parts)
