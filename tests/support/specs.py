"""What ``watch`` makes of its arguments, without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import topwatch as tw
from topwatch.spark.operator.references import ROWS, Reference
from topwatch.spark.planner import Spec, monitor_of, stream_plan
from topwatch.spark.state.segments import Folder

TOP = tw.TopK(k=3, score=tw.linear(x=1.0), name="top")
SETTINGS = ("every", "algorithm", "options", "time", "by", "only_rows", "watermark")
RESULT = pa.schema(
    [("at", pa.int64()), ("query", pa.string()), ("op", pa.string()), ("id", pa.int64()), ("score", pa.float64())]
)


def spec_of(queries: Any = TOP, window: Any = None, pruned: bool | None = None, **given: Any) -> Spec:
    """Make a specification; ``pruned`` overrules the plan."""
    emit, order = given.pop("emit", "changes"), tuple(given.pop("order", ()))
    settings = {name: given.pop(name) for name in SETTINGS if name in given}
    if settings.get("watermark"):
        settings["order"] = order
    monitor = monitor_of(queries, emit, window=window or tw.last(10), id="id", **settings)
    segments = given.pop("segments", None)
    plan = stream_plan(monitor, False, segments)
    if pruned is not None:
        plan = dataclasses.replace(plan, pruned=pruned)
    known = {"columns": tuple(monitor.columns), "schema": RESULT, "segments": segments, **given}
    return Spec(tuple(monitor.queries), monitor.settings, emit, plan, order=order, **known)


def references(folder: Folder, batch: int, tables: Sequence[pa.Table]) -> list[Reference]:
    """Write a segment, and return what the bulk stage hands on of it."""
    segment = folder.create(f"{batch:07d}-p00000")
    parts = [segment.add_table(table)._asdict() for table in tables]
    name = segment.close()
    return [Reference(0, ROWS, 0, i, **{**part, "segment": name}) for i, part in enumerate(parts)]
