"""A pipeline in words."""

from __future__ import annotations

from topwatch.spark.pipeline.config import building
from topwatch.spark.pipeline.config.fields import shown
from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.pipeline.config.source_models import Files

BYTES = 8  # of a number


def in_a_line(pipeline: Pipeline) -> str:
    """Say what the pipeline does in one line."""
    number = len(pipeline.queries)
    what = f"{number:,} {'query' if number == 1 else 'queries'}"
    over = f"over the {pipeline.window} of {pipeline.source.chosen}{_each(pipeline)}"
    return f"{what} {over}, {pipeline.emit} to {pipeline.sink.chosen}"


def in_full(pipeline: Pipeline) -> str:
    """Say what the pipeline reads, keeps and writes, and which algorithm serves which query, and why."""
    return "\n".join(
        [
            f"source: {_source(pipeline)}",
            f"order: {_order(pipeline)}",
            f"window: {pipeline.window}{_each(pipeline)}, evaluated {_evaluated(pipeline)}",
            f"state: {_state(pipeline)}",
            f"sink: {pipeline.emit} to {pipeline.sink.chosen}, {_trigger(pipeline)}",
            building.monitor(pipeline).explain(),
        ]
    )


def _each(pipeline: Pipeline) -> str:
    return f" for each {' and '.join(pipeline.by)}" if pipeline.by else ""


def _source(pipeline: Pipeline) -> str:
    source = pipeline.source.chosen
    if not isinstance(source, Files):
        return str(source)
    limit = f", at most {source.max_files:,} new files at a time" if source.max_files else ""
    return f"{source.format} files {source}{limit}"


def _order(pipeline: Pipeline) -> str:
    if pipeline.time is None:
        order = "as the source has them"
    elif pipeline.lateness is None:
        order = f"by {pipeline.time}, with no wait for rows out of order"
    else:
        order = f"by {pipeline.time}, with {pipeline.lateness} for rows out of order"
    if pipeline.chunks is not None:
        order += f", put together every {pipeline.chunks.every} ({pipeline.chunks.combine})"
    kept = f"kept in {shown(pipeline.quarantine)}" if pipeline.quarantine else "left out"
    return f"{order}; rows that cannot be used are counted and {kept}"


def _evaluated(pipeline: Pipeline) -> str:
    if isinstance(pipeline.every, str):
        return f"every {pipeline.every} of {pipeline.time}"
    return "after every row" if pipeline.every == 1 else f"after every {pipeline.every:,} rows"


def _state(pipeline: Pipeline) -> str:
    columns = {column for question in pipeline.queries for _, column in question.columns()}
    width = len(columns) + (pipeline.time is not None)
    row = f"{width} number{'s' if width > 1 else ''} and an id"
    rows = pipeline.window.last
    if isinstance(rows, int):
        size = f"{rows:,} rows of {row} ({_size(rows * width * BYTES)} without ids)"
    else:
        size = f"the {pipeline.window}{' of rows' if rows else ''}, {row} each"
    where = f"in {shown(pipeline.checkpoint)}" if pipeline.checkpoint else "until the run ends"
    return f"at most {size}{_each(pipeline)}, kept {where}"


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:,.0f} TB"


def _trigger(pipeline: Pipeline) -> str:
    return f"every {pipeline.trigger}" if pipeline.trigger else "as fast as it goes"
