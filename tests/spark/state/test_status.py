"""Status files: what buckets write, a reader sees; what is missing or broken, it does without."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from topwatch.spark.state.status import Answer, Status, read_status, write_status

HOT = Answer((), "hot", (("a", 0.9), (7, -1.5), (None, None)))


def test_what_one_bucket_writes_is_read_back(tmp_path: Path) -> None:
    status = Status(batch=7, rows=100, late=3, refused=1, live=50, bytes=2400, answers=(HOT,))
    for folder in (str(tmp_path), tmp_path.as_uri()):
        write_status(folder, "q", 0, status)
        assert read_status(folder, "q") == status
    assert [path.name for path in tmp_path.iterdir()] == ["status-q-0.json"]


def test_a_folder_that_cannot_be_opened_has_no_status(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in ("s3a://bucket/segments", str(tmp_path / "file")):
        write_status(folder, "q", 0, Status())
        assert read_status(folder, "q") is None


def test_the_file_is_as_the_docstring_of_the_format_says(tmp_path: Path) -> None:
    write_status(str(tmp_path), "q", 5, Status(1, 2, 3, 4, 5, 6, (Answer(("EWR", None), "hot", (("a", 0.9),)),)))
    assert json.loads((tmp_path / "status-q-5.json").read_text()) == {
        "batch": 1,
        "rows": 2,
        "late": 3,
        "refused": 4,
        "live": 5,
        "bytes": 6,
        "answers": [{"by": ["EWR", None], "query": "hot", "rows": [["a", 0.9]]}],
    }


def test_buckets_are_summed_and_what_changed_last_comes_first(tmp_path: Path) -> None:
    groups = {number: [Answer((f"{number}{index}",), "hot", ()) for index in "ab"] for number in (0, 1, 12)}
    write_status(str(tmp_path), "q", 0, Status(8, 10, 1, 0, 5, 100, tuple(groups[0])))
    write_status(str(tmp_path), "q", 1, Status(9, 20, 0, 2, 6, 200, tuple(groups[1])))
    write_status(str(tmp_path), "q", 12, Status(9, 30, 1, 0, 7, 300, tuple(groups[12][:1])))
    result = read_status(str(tmp_path), "q")
    assert result is not None
    assert (result.batch, result.rows, result.late, result.refused, result.live, result.bytes) == (9, 60, 2, 2, 18, 600)
    assert [by for (by,), _, _ in result.answers] == ["1a", "12a", "0a", "1b", "0b"]


def test_a_bucket_is_replaced(tmp_path: Path) -> None:
    write_status(str(tmp_path), "q", 0, Status(1, 10))
    write_status(str(tmp_path), "q", 0, Status(2, 25))
    assert read_status(str(tmp_path), "q") == Status(2, 25)


@pytest.mark.parametrize("folder", ["not/there", "s3q://unknown/scheme"])
def test_no_folder_is_nothing_known(tmp_path: Path, folder: str) -> None:
    assert read_status(folder if "://" in folder else str(tmp_path / folder), "q") is None


def test_a_folder_without_status_is_nothing_known(tmp_path: Path) -> None:
    (tmp_path / "needs-0.json").write_text('{"batch": 1, "names": []}')
    (tmp_path / "0000000001-ab.seg").write_bytes(b"topseg")
    assert read_status(str(tmp_path), "q") is None


@pytest.mark.parametrize("broken", ["", '{"batch": 7, "ro', "[]", "null", "\xff"])
def test_a_broken_file_is_left_out(tmp_path: Path, broken: str) -> None:
    write_status(str(tmp_path), "q", 0, Status(3, 10, answers=(HOT,)))
    (tmp_path / "status-q-1.json").write_bytes(broken.encode("latin-1"))
    (tmp_path / "status-q-2.json").mkdir()
    assert read_status(str(tmp_path), "q") == Status(3, 10, answers=(HOT,))


def test_fields_may_be_missing_new_or_odd(tmp_path: Path) -> None:
    content = {
        "batch": 4,
        "rows": "many",
        "late": True,
        "colour": "green",
        "answers": [
            {"by": [], "query": "hot", "rows": [["a", "high"]]},
            {"query": "hot"},
            "hot",
            {"by": [], "query": "hot", "rows": [["a", 1, 2]]},
            {"by": [["x", 1]], "query": "hot", "rows": [[{"k": 1}, 2]], "more": 1},
        ],
    }
    (tmp_path / "status-q-0.json").write_text(json.dumps(content))
    assert read_status(str(tmp_path), "q") == Status(4, answers=(Answer((["x", 1],), "hot", (({"k": 1}, 2.0),)),))


def test_ids_that_json_does_not_know_become_text(tmp_path: Path) -> None:
    day = datetime.date(2024, 5, 1)
    write_status(str(tmp_path), "q", 0, Status(answers=(Answer((day,), "hot", ((day, float("inf")),)),)))
    result = read_status(str(tmp_path), "q")
    assert result is not None
    assert result.answers == (Answer(("2024-05-01",), "hot", (("2024-05-01", float("inf")),)),)
