"""From the model of a pipeline to topwatch's own words."""

from __future__ import annotations

from topwatch.monitor.monitor import Monitor
from topwatch.query.queries import Query
from topwatch.query.windows import Window
from topwatch.spark.pipeline.config.model import Pipeline


def queries(pipeline: Pipeline) -> list[Query]:
    """Make the queries, in the order of the file."""
    return [question.build() for question in pipeline.queries]


def window(pipeline: Pipeline) -> Window:
    """Make the window."""
    return pipeline.window.build()


def monitor(pipeline: Pipeline, asked: list[Query] | None = None) -> Monitor:
    """Make the monitor of the pipeline's queries, or of others instead; each value of ``by`` has one like it."""
    return Monitor(
        queries(pipeline) if asked is None else asked,
        window=window(pipeline),
        every=pipeline.every,
        algorithm=pipeline.algorithm,
        id=pipeline.id,
        time=pipeline.time,
        **pipeline.options,
    )
