"""State backends: what a version names stays, whoever wrote it; what none names goes. The same for both of them."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.spark.state import backends
from topwatch.spark.state.backends import UNCLAIMED, FolderBackend, StateBackend, StoreBackend
from topwatch.spark.state.manifest import Manifest, MicroBatch
from topwatch.spark.state.segments import Folder, Part

RETAIN = 2
ROWS = pa.py_buffer(b"rows" * 100)


class MapState:
    """Spark's map state, as far as it is used."""

    def __init__(self) -> None:
        self.held: dict[Any, tuple[bytes]] = {}

    def updateValue(self, key: Any, value: tuple[bytes]) -> None:  # noqa: N802 - Spark's names
        self.held[key] = value

    def getValue(self, key: Any) -> tuple[bytes] | None:  # noqa: N802
        return self.held.get(key)

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self.held[key]


class Version:
    """A bucket's state, from version to version."""

    def __init__(self, backend: StateBackend) -> None:
        self.backend, self.manifest = backend, Manifest()

    def next(self, *parts: Part, rows: int = 10**9, attempt: bool = False) -> Manifest:
        """Make a version that has more parts, and no more rows than needed; commit it, or leave it an attempt."""
        made = Manifest.from_bytes(self.manifest.to_bytes())
        known, gone = made.names(), made.before
        made.begin(True)
        made.log.append(MicroBatch(list(parts), None))
        lost = made.trim(rows)
        made.renew()
        released = self.backend.release(made, lost, RETAIN)
        self.backend.publish(made, [part for part in made.parts() if part.segment not in known], gone, released)
        if not attempt:
            self.manifest = made
        return made


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


def at(number: int) -> Manifest:
    """Return a version of a state, for what is kept with it."""
    return Manifest(state="5tate", number=number)


def kept(folder: Folder, end: str = ".seg") -> set[str]:
    return {path.name for path in Path(folder.uri).iterdir() if path.name.endswith(end)}


@pytest.fixture(params=["folder", "store"])
def backend(request: pytest.FixtureRequest, folder: Folder) -> StateBackend:
    return FolderBackend(folder, 5, every=1) if request.param == "folder" else StoreBackend(MapState())


@pytest.mark.parametrize("size", [0, 1, backends.PIECE_BYTES, backends.PIECE_BYTES + 1])
def test_what_is_put_is_got(backend: StateBackend, size: int) -> None:
    data = os.urandom(size)
    part = backend.put(at(7), pa.py_buffer(data), 3)
    assert (part.size, part.rows) == (size, 3)
    assert backend.get(part).to_pybytes() == data


def test_what_is_not_what_the_state_says_is_an_error(backend: StateBackend) -> None:
    part = backend.put(at(7), ROWS)
    for wrong in (part._replace(check=part.check ^ 1), part._replace(size=part.size + 1)):
        with pytest.raises(tw.DataError, match=f"{part.segment}.*(damaged|missing)"):
            backend.get(wrong)
    with pytest.raises(tw.DataError, match=r"nothing.seg.*is missing"):
        backend.get(part._replace(segment="nothing.seg"))


def test_what_left_the_window_goes_once_no_version_with_it_can_come_back(backend: StateBackend) -> None:
    state = Version(backend)
    parts = [backend.put(at(number), pa.py_buffer(b"rows %d" % number), 1) for number in range(6)]
    for number, part in enumerate(parts):
        state.next(part, rows=1)
        assert backend.get(part).to_pybytes() == b"rows %d" % number
    retained = RETAIN + 1 if isinstance(backend, FolderBackend) else 0  # the store keeps its earlier versions itself
    for number, part in enumerate(parts[:-1]):
        if number >= len(parts) - 1 - retained:
            backend.get(part)
        else:
            with pytest.raises(tw.DataError, match="missing"):
                backend.get(part)


def test_the_last_bucket_that_needs_a_segment_removes_it(folder: Folder) -> None:
    one, other = (Version(FolderBackend(folder, bucket, every=1)) for bucket in (0, 1))
    shared = FolderBackend(folder, 9).put(at(0), ROWS, 1)
    one.next(shared)
    other.next(shared)
    for number in range(5):
        one.next(one.backend.put(at(number), pa.py_buffer(b"one %d" % number), 1), rows=1)
        assert shared.segment in kept(folder)
    for number in range(RETAIN + 2):
        assert shared.segment in kept(folder)
        other.next(other.backend.put(at(number), pa.py_buffer(b"other %d" % number), 1), rows=1)
    assert shared.segment not in kept(folder)


def test_an_attempt_that_was_given_up_takes_nothing_from_the_one_that_counts(folder: Folder) -> None:
    """Spark may try a task again while the first attempt still runs, and either version may be the one it keeps."""
    state = Version(FolderBackend(folder, 5, every=1))
    first = state.backend.put(at(0), ROWS, 1)
    state.next(first)
    lost = state.backend.put(at(1), pa.py_buffer(b"lost"), 1)
    counts = state.backend.put(at(1), pa.py_buffer(b"counts"), 1)
    state.next(lost, rows=1, attempt=True)
    state.next(counts, rows=1)
    late = Version(state.backend)
    late.manifest = Manifest.from_bytes(state.manifest.to_bytes())
    late.next(attempt=True)  # an attempt that ends long after it was given up
    for number in range(5):
        state.next(state.backend.put(at(2 + number), pa.py_buffer(b"%d" % number), 1))
        assert {counts.segment} <= kept(folder)
    assert len(kept(folder, ".json")) <= 2, "metadata files of what was given up are gone"


def test_two_states_in_one_folder_leave_each_other_what_they_need(folder: Folder) -> None:
    """Two watched streams that are equal to the letter, or two queries."""
    one, other = (Version(FolderBackend(folder, 0, every=1)) for _ in range(2))
    same = one.backend.put(at(0), ROWS, 1)
    assert other.backend.put(at(0), ROWS, 1) == same, "equal bytes of one micro-batch are one file"
    one.next(same)
    other.next(same)
    for number in range(8):
        one.next(one.backend.put(at(1 + number), pa.py_buffer(b"%d" % number), 1), rows=1)
    assert same.segment in kept(folder)
    assert other.backend.get(same).to_pybytes() == ROWS.to_pybytes()


def test_what_nobody_has_named_goes_after_a_day(folder: Folder) -> None:
    state = Version(FolderBackend(folder, 5, every=1))
    orphan, needed = (state.backend.put(at(0), pa.py_buffer(data), 1) for data in (b"orphan", b"needed"))
    scratch = Path(folder.uri) / ".0000000000000-p00000.0011223344556677"
    scratch.write_bytes(b"of a writer that was killed")
    state.next(needed)
    assert orphan.segment in kept(folder), "a micro-batch that runs now may be about to name it"
    past = os.stat(Path(folder.uri) / orphan.segment).st_mtime - UNCLAIMED - 1
    for path in Path(folder.uri).iterdir():
        os.utime(path, (past, past))
    state.next()
    assert kept(folder) == {needed.segment}
    assert not scratch.exists()


def test_a_metadata_file_that_cannot_be_read_stops_the_cleaning(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """It may name any segment: nothing is removed until it can be read or is gone; the log says so."""
    state = Version(FolderBackend(folder, 5, every=1))
    (Path(folder.uri) / "needs-other.json").write_text('{"names": ["0000')
    first = state.backend.put(at(0), ROWS, 1)
    state.next(first)
    for number in range(6):
        state.next(state.backend.put(at(1 + number), pa.py_buffer(b"%d" % number), 1), rows=1)
    assert first.segment in kept(folder)
    assert "while needs-other.json cannot be read" in caplog.text


def test_names_in_the_store_are_never_taken_twice() -> None:
    """The number of micro-batches does not rise where a timer fires and no row has come."""
    pieces = MapState()
    manifest = at(7)
    for size in (3 * backends.PIECE_BYTES, 10, 2 * backends.PIECE_BYTES):
        backend = StoreBackend(pieces)  # a task each
        parts = [backend.put(manifest, pa.py_buffer(bytes([i]) * size)) for i in range(2)]
        assert len({part.segment for part in parts}) == 2
        backend.release(manifest, manifest.rebase(parts[0]), RETAIN)
        manifest.log.append(MicroBatch(parts[1:], None))
        for i, part in enumerate(parts):
            assert backend.get(part).to_pybytes() == bytes([i]) * size
        assert {name for name, _ in pieces.held} == manifest.names()
        assert len(pieces.held) == 2 * -(-size // backends.PIECE_BYTES), "nothing of others is left"


def test_nothing_is_named_that_this_host_cannot_see(folder: Folder) -> None:
    """Rows may have come by the memory of the machine, from a folder that only another host has."""
    state = Version(FolderBackend(folder, 5))
    part = Part("0000000000001-p00000-abc.seg", 0, 10, 1, 7)
    with pytest.raises(
        tw.DataError, match=rf"p00000-abc.seg is missing from .* as host {socket.gethostname()} sees it"
    ):
        state.next(part)
    (Path(folder.uri) / part.segment).write_bytes(b"short")
    with pytest.raises(tw.DataError, match="has 5 bytes of at least 74"):
        state.next(part)
    assert kept(folder, ".json") == set()
