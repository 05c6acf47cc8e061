"""Where in a file a problem is: so that a message can say line and field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from topwatch.query.errors import PipelineError
from topwatch.spark.pipeline.config.yaml_nodes import Node, NotAPipelineError, Path, nodes, yaml

COLON = "mapping values are not allowed here"  # what yaml says of it
LONGEST = 600  # characters of a message
LONGEST_KEY = 60


@dataclass(frozen=True)
class Problem:
    """What is wrong, and the path of keys and positions that leads there."""

    path: Path
    text: str

    def __str__(self) -> str:
        text = f"{dotted(self.path)}: {self.text}" if self.path else self.text
        return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


@dataclass(frozen=True)
class Document:
    """The one document of a file."""

    name: str
    root: Node
    twice: list[Problem]  # keys that stand twice in a mapping
    _pairs: dict[int, dict[str, tuple[int, int, Node]]] = field(default_factory=dict)  # of mappings looked into

    @property
    def data(self) -> Any:
        """Its plain values."""
        return self.root.data

    def index(self, path: Path) -> tuple[int, int]:
        """Return line and column of the key or item at a path, or of the nearest thing above it that is in the file."""
        node, result = self.root, (self.root.line, self.root.column)
        for step in path:
            if node.pairs is not None:
                if id(node) not in self._pairs:
                    self._pairs[id(node)] = {str(key): (line, column, value) for key, line, column, value in node.pairs}
                pair = self._pairs[id(node)].get(str(step))
                if pair is None:
                    break
                result, node = pair[:2], pair[2]
            elif node.items is not None and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
                result = (node.line, node.column)
            else:
                break
        return result

    def error(self, problems: list[Problem]) -> PipelineError:
        """Put all problems into one error, in the order of lines."""
        located = sorted(((self.index(problem.path), problem) for problem in problems), key=lambda pair: pair[0])
        return PipelineError(*(f"{self.name}:{line}: {problem}" for (line, _), problem in located))


def compose(name: str, text: str) -> Document:
    """Read the text of a file; ``name`` is what messages call it."""
    twice: list[tuple[Path, str]] = []
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


def dotted(path: Path) -> str:
    """Write a path as a person would.

    >>> dotted(("queries", 1, "score", "linear", "net.bytes"))
    "queries[1].score.linear['net.bytes']"
    """
    steps = [f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{step!r}]" for step in path]
    steps = [step if len(step) <= LONGEST_KEY else step[: LONGEST_KEY - 3] + "..." for step in steps]
    return "".join(steps).removeprefix(".")


def _character(name: str, text: str, error: Any) -> str:
    """Say which character cannot stand in YAML. Its index is searched for: the parsers count bytes or characters."""
    result = yaml.reader.Reader.NON_PRINTABLE.search(text)
    index, character = (result.start(), result[0]) if result else (0, str(error.character))
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
