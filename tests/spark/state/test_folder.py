"""Files are written whole: by a rename, or where there is none, in one go under their own names."""

from __future__ import annotations

import io
from typing import Any

import pytest

from topwatch.spark.state import folder
from topwatch.spark.state.folder import write_whole


class Stream(io.BytesIO):
    """A file that has its bytes when it is closed."""

    def __init__(self, system: FileSystem, path: str) -> None:
        super().__init__()
        self._system, self._path = system, path

    def close(self) -> None:
        if not self.closed:
            self._system.files[self._path] = self.getvalue()
        super().close()


class FileSystem:
    """What is used of an Arrow file system; object stores have no rename."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name
        self.files: dict[str, bytes] = {}
        self.calls: list[tuple[str, ...]] = []

    def create_dir(self, path: str, recursive: bool) -> None:
        assert recursive
        self.calls.append(("create_dir", path))

    def open_output_stream(self, path: str) -> Stream:
        self.calls.append(("write", path))
        return Stream(self, path)

    def move(self, path: str, target: str) -> None:
        assert self.type_name not in ("s3", "gcs", "abfs"), "they may have no rename"
        self.calls.append(("move", path))
        self.files[target] = self.files.pop(path)


@pytest.mark.parametrize("type_name", ["s3", "gcs", "abfs", "hdfs"])
def test_files_on_other_file_systems(type_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system: Any = FileSystem(type_name)
    monkeypatch.setattr(folder, "open_folder", lambda uri: (system, "bucket/segments"))
    for content in ([b"one ", b"and two"], [b"other"]):
        write_whole(f"{type_name}://bucket/segments", "a.json", iter(content))
        assert system.files == {"bucket/segments/a.json": b"".join(content)}, "and no scratch file"
    assert system.calls[0] == ("create_dir", "bucket/segments")
    written = [path for call, path in system.calls if call == "write"]
    if type_name == "hdfs":
        assert all(path.startswith("bucket/segments/.a.json.") for path in written)
        assert len(set(written)) == 2
    else:
        assert written == 2 * ["bucket/segments/a.json"]
