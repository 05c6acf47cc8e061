"""Workers that help each other out: where they cannot, a bucket is read again and nothing else happens."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.spark import neighbours
from topwatch.spark.homes import FolderHome
from topwatch.spark.keeper import Keeper, Task
from topwatch.spark.segments import Folder
from topwatch.spark.spec import Spec


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    given: dict[str, Any] = {"queries": (tw.TopK(k=1, score=tw.linear(x=1.0), name="hot"),), "columns": ("x",)}
    given |= {"window": tw.last(10), "every": 1, "algorithm": "sma", "options": {}, "id": "id", "time": None, "by": ()}
    given |= {"order": (), "emit": "changes", "watermark": False, "buckets": (0,), "segments": str(tmp_path)}
    kinds = {"at": pa.int64(), "query": pa.string(), "op": pa.string(), "id": pa.int64(), "score": pa.float64()}
    spec = Spec(**given, schema=pa.schema(list(kinds.items())))
    return Keeper(spec, "query", 0, FolderHome(Folder(str(tmp_path)), "-", 0))


def test_a_folder_whose_name_is_too_long_for_a_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeper: Keeper
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    monkeypatch.setattr(neighbours, "_door", None)
    state = None
    for batch in range(2):
        state = neighbours.advance(keeper, "bucket", Task(state, [], batch)).state
