"""From a file to a :class:`Pipeline`, or to all that is wrong with it, each with its line and field."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from topwatch.query.errors import PipelineError
from topwatch.spark.pipeline.config import rules
from topwatch.spark.pipeline.config.fields import described
from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.pipeline.config.rules import Problem
from topwatch.spark.pipeline.config.yaml_nodes import FieldPath, Node, NotAPipelineError, nodes, yaml

MOST_BYTES = 32_000_000
COLON = "mapping values are not allowed here"  # yaml's message for it


def read(path: str | os.PathLike[str], conf: Mapping[str, str] | None = None) -> Pipeline:
    """Read and check a pipeline. Relative paths in it are relative to its folder.

    Parameters
    ----------
    path : str or path
        The file.
    conf : mapping, optional
        Settings of Spark that come on top of those of the file. With them, what a run on this machine is certain to
        fail of is refused too: the types of columns in Parquet files, and jars that Spark will not have.

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
    return parse(text, name, folder=os.path.dirname(os.path.abspath(path)), conf=conf)


def parse(
    text: str, name: str = "pipeline.yml", folder: str | None = None, conf: Mapping[str, str] | None = None
) -> Pipeline:
    """Read a pipeline from text.

    >>> parse("windw: {last: 5}")
    Traceback (most recent call last):
    ...
    topwatch.PipelineError: pipeline.yml:1: source: missing; expected a mapping with one of files, ...
    """
    document = compose(name, text)
    data = document.data
    if not isinstance(data, Mapping):
        raise document.error(
            [Problem((), f"expected fields such as source, window and queries, got {described(data)}")]
        )
    valid: dict[str, Any] = {}
    problems, pipeline = list(document.twice), None
    try:
        pipeline = Pipeline.model_validate(data, context={"folder": folder or os.getcwd(), "valid": valid})
    except ValidationError as error:
        problems += _problems(error)
    draft = rules.Draft(data, valid)
    problems += rules.problems(draft)
    if conf is not None:
        problems += rules.problems_here(draft, conf)
    if problems or pipeline is None:
        raise document.error(problems)
    return pipeline


def _problems(error: ValidationError) -> Iterator[Problem]:
    for line in error.errors(include_url=False):
        path = tuple(step for step in line["loc"] if step != "[key]")
        yield Problem((*path, *line["ctx"]["at"]), line["ctx"]["text"])


@dataclass(frozen=True)
class Document:
    """The one document of a file."""

    name: str
    root: Node
    twice: list[Problem]  # keys that a mapping has twice
    _pairs: dict[int, dict[str, tuple[int, int, Node]]] = field(default_factory=dict)  # of mappings looked into

    @property
    def data(self) -> Any:
        """Its plain values."""
        return self.root.data

    def locate(self, path: FieldPath) -> tuple[int, int]:
        """Return line and column of the key or item at a path, or of the nearest thing above it that is in the file."""
        node, where = self.root, (self.root.line, self.root.column)
        for step in path:
            if node.pairs is not None:
                if id(node) not in self._pairs:
                    self._pairs[id(node)] = {str(key): (line, column, value) for key, line, column, value in node.pairs}
                pair = self._pairs[id(node)].get(str(step))
                if pair is None:
                    break
                where, node = pair[:2], pair[2]
            elif node.items is not None and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
                where = (node.line, node.column)
            else:
                break
        return where

    def error(self, problems: list[Problem]) -> PipelineError:
        """Put all problems into one error, in the order of lines."""
        located = sorted(((self.locate(problem.path), problem) for problem in problems), key=lambda pair: pair[0])
        return PipelineError(*(f"{self.name}:{line}: {problem}" for (line, _), problem in located))


def compose(name: str, text: str) -> Document:
    """Read the text of a file; ``name`` is what messages call it."""
    twice: list[tuple[FieldPath, str]] = []
    try:
        root = nodes(text, twice)
    except NotAPipelineError as error:
        raise PipelineError(f"{name}:{error.line}: {Problem(error.path, error.text)}") from None
    except yaml.reader.ReaderError as error:
        raise PipelineError(_character(name, text, error)) from None
    except yaml.MarkedYAMLError as error:
        raise PipelineError(_in_words(name, error)) from None
    if root is None:
        raise PipelineError(f"{name}:1: empty; expected fields such as source, window, queries and sink")
    return Document(name, root, [Problem(path, words) for path, words in twice])


def _character(name: str, text: str, error: Any) -> str:
    """Name the character that YAML refuses. It is searched for: the parsers count bytes or characters."""
    match = yaml.reader.Reader.NON_PRINTABLE.search(text)
    index, character = (match.start(), match[0]) if match else (0, str(error.character))
    return f"{name}:{text.count(chr(10), 0, index) + 1}: the character {character!r} is not accepted in YAML"


def _in_words(name: str, error: Any) -> str:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    if error.problem and "'\\t'" in error.problem:
        return f"{name}:{line}: a tab where YAML wants spaces; indent with spaces"
    context = error.context
    if context and context.startswith("while") and error.context_mark and error.context_mark.line + 1 < line:
        context += f" that began in line {error.context_mark.line + 1}"
    hint = "; text with a colon in it goes in quotes" if error.problem == COLON else ""
    message = ", ".join(part for part in (context, error.problem) if part)
    return f"{name}:{line}: {Problem((), f'not YAML: {message}{hint}')}"
