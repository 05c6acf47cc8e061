"""Pipelines that tests read."""

from __future__ import annotations

from typing import Any

from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.pipeline.config.reading import parse
from topwatch.spark.pipeline.config.sink_models import Sink
from topwatch.spark.pipeline.config.source_models import Source

EXAMPLE = """\
source: {files: data/*.parquet}        # or kafka: / rate: / generate: / socket:, options passed through to Spark
id: flow
time: ts
by: region                             # optional
window: {last: 100000}                 # or {last: 10 minutes} or latest
every: 1
queries:
  - {name: hot, top: 10, score: {linear: {bytes: 0.7, packets: 0.3}}}
  - {name: near, nearest: 5, point: {lat: 45.1, lon: 7.2}}
  - {name: alarm, threshold: 0.9, score: {expr: bytes / (1 + seconds), increasing: [bytes], decreasing: [seconds]}}
sink: {parquet: out/}                  # or console: / kafka: / jdbc: / memory:
checkpoint: ckpt/
"""


def written(**fields: str) -> str:
    """Write a small pipeline, with some fields in place of its own."""
    given = {
        "source": "{files: data/*.parquet}",
        "window": "{last: 100}",
        "queries": "[{top: 1, score: {linear: {x: 1}}}]",
        "sink": "console",
        **fields,
    }
    return "".join(f"{name}: {value}\n" for name, value in given.items())


def source_part(kind: str, /, **fields: Any) -> Any:
    """Return the part of a pipeline's file that describes a source."""
    return Source.model_validate({kind: fields}).chosen


def sink_part(kind: str, /, **fields: Any) -> Any:
    """Return the part of a pipeline's file that describes a sink."""
    return Sink.model_validate({kind: fields}).chosen


def pipeline(**fields: str) -> Pipeline:
    """Read it, as if it stood in /data."""
    return parse(written(**fields), folder="/data")
