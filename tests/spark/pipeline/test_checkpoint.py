"""What a checkpoint was begun with is compared before Spark starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topwatch as tw
from tests.support.pipelines import written
from tests.support.refusal import refused
from topwatch.spark.pipeline.checkpoint import FILE, check_begun, record
from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.pipeline.config.reading import parse

OTHER = r"begun with other queries, another window or other settings"


def of(folder: Path, **fields: str) -> Pipeline:
    return parse(written(checkpoint="ckpt/", **fields), folder=str(folder))


def commit(folder: Path, batch: int = 0) -> None:
    """Make the file that Spark writes when a micro-batch is done."""
    commits = folder / "ckpt" / "changes" / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    (commits / str(batch)).write_text("v1\n{}")


@pytest.mark.parametrize(
    "change",
    [
        {"queries": "[{top: 2, score: {linear: {x: 1}}}]"},
        {"queries": "[{top: 1, score: {linear: {x: 1}}, name: other}]"},
        {"queries": "[{top: 1, score: {linear: {x: 1}}}, {nearest: 1, point: {x: 1}}]"},
        {"window": "{last: 101}"},
        {"every": "2"},
        {"emit": "answers"},
        {"by": "region"},
        {"algorithm": "sma"},
        {"time": "ts"},
    ],
    ids=str,
)
def test_what_the_state_depends_on_cannot_change(tmp_path: Path, change: dict[str, str]) -> None:
    record(of(tmp_path))
    commit(tmp_path)
    check_begun(of(tmp_path))
    with refused(tw.DataError, OTHER):
        check_begun(of(tmp_path, **change))
    record(of(tmp_path, **change))  # what has begun is not overwritten
    check_begun(of(tmp_path))


def test_what_means_the_same_goes_on(tmp_path: Path) -> None:
    record(of(tmp_path, every="1 minute", time="ts"))
    commit(tmp_path)
    check_begun(of(tmp_path, every="60 seconds", time="ts", trigger="5 seconds", source="{files: other/*.parquet}"))


def test_before_the_first_micro_batch_anything_may_change(tmp_path: Path) -> None:
    record(of(tmp_path))
    check_begun(of(tmp_path, every="2"))
    record(of(tmp_path, every="2"))
    commit(tmp_path)
    check_begun(of(tmp_path, every="2"))


@pytest.mark.parametrize("content", [None, "", "[]", "no JSON", json.dumps({"format": 99, "made_for": "x"})])
def test_without_a_readable_record_the_state_has_the_last_word(tmp_path: Path, content: str | None) -> None:
    commit(tmp_path)
    if content is not None:
        (tmp_path / "ckpt" / FILE).write_text(content)
    check_begun(of(tmp_path))
    record(of(tmp_path, every="2"))
    check_begun(of(tmp_path))


def test_a_pipeline_without_a_checkpoint() -> None:
    pipeline = parse(written())
    check_begun(pipeline)
    record(pipeline)
