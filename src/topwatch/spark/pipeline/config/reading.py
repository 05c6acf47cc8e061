"""From a file to a :class:`Pipeline`, or to all that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from topwatch.query.errors import PipelineError
from topwatch.spark.pipeline.config import rules
from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.pipeline.config.parts import said
from topwatch.spark.pipeline.config.positions import Problem, compose

MOST_BYTES = 32_000_000


def read(path: str | os.PathLike[str]) -> Pipeline:
    """Read and check a pipeline. Relative paths in it are relative to the folder it stands in.

    Raises
    ------
    PipelineError
        With a line for each problem: file, line number, field, what it got and what it accepts.
    """
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise PipelineError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > MOST_BYTES:
        raise PipelineError(f"{name}: too large; a pipeline has at most {MOST_BYTES:,} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise PipelineError(
            f"{name}:{line}: not UTF-8: byte 0x{raw[error.start]:02x}; save the file as UTF-8"
        ) from None
    return parse(text, name, folder=os.path.dirname(os.path.abspath(path)))


def parse(text: str, name: str = "pipeline.yml", folder: str | None = None) -> Pipeline:
    """Read a pipeline from text.

    >>> parse("windw: {last: 5}")
    Traceback (most recent call last):
    ...
    topwatch.PipelineError: pipeline.yml:1: source: missing; expected a mapping with one of files, ...
    """
    document = compose(name, text)
    data = document.data
    if not isinstance(data, Mapping):
        raise document.error([Problem((), f"expected fields such as source, window and queries, got {said(data)}")])
    fine: dict[str, Any] = {}
    problems, pipeline = list(document.twice), None
    try:
        pipeline = Pipeline.model_validate(data, context={"folder": folder or os.getcwd(), "fine": fine})
    except ValidationError as error:
        problems += _problems(error)
    problems += rules.problems(rules.Draft(data, fine))
    if problems or pipeline is None:
        raise document.error(problems)
    return pipeline


def _problems(error: ValidationError) -> Iterator[Problem]:
    for line in error.errors(include_url=False):
        path = tuple(step for step in line["loc"] if step != "[key]")
        yield Problem((*path, *line["ctx"]["at"]), line["ctx"]["text"])
