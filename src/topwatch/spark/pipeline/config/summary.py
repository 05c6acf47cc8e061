"""A pipeline in words: what it reads and writes, and the plan that runs."""

from __future__ import annotations

from topwatch.spark.pipeline.config.fields import shown
from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.pipeline.config.source_models import Files


def in_a_line(pipeline: Pipeline) -> str:
    """Describe the pipeline in one line."""
    number = len(pipeline.queries)
    what = f"{number:,} {'query' if number == 1 else 'queries'}"
    over = f"over the {pipeline.window} of {pipeline.source.chosen}{_each(pipeline)}"
    return f"{what} {over}, {pipeline.emit} to {pipeline.sink.chosen}"


def in_full(pipeline: Pipeline) -> str:
    """Describe what the pipeline reads and writes and where it continues from, and the plan that runs."""
    return "\n".join(
        [
            f"source: {_source(pipeline)}",
            f"order: {_order(pipeline)}",
            f"sink: {pipeline.emit} to {pipeline.sink.chosen}, {_trigger(pipeline)}",
            f"checkpoint: {_checkpoint(pipeline)}",
            *pipeline.plan().lines(),
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


def _checkpoint(pipeline: Pipeline) -> str:
    return shown(pipeline.checkpoint) if pipeline.checkpoint else "none; the state is kept until the run ends"


def _trigger(pipeline: Pipeline) -> str:
    return f"every {pipeline.trigger}" if pipeline.trigger else "as fast as it goes"
