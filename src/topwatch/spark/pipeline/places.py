"""YAML to plain values, with the line of each: so that a message can say where.

Words are read as YAML 1.2 does: ``no`` and ``on`` are text, ``1e-3`` is a number, a date stays text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from topwatch.errors import PipelineError, TopwatchError

try:
    import yaml
except ModuleNotFoundError as missing:
    raise TopwatchError("pipeline: reading one needs PyYAML; pip install 'topwatch[spark]' brings it") from missing

# A short file can unfold to billions of values, and an alias can contain itself.
MOST_NODES = 1_000_000
MOST_LEVELS = 50

COLON = "mapping values are not allowed here"  # what yaml says of it

Path = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - yaml's own name and type


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9_]{0,30})", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*|(?=[eE]))|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_first))


@dataclass(frozen=True)
class Problem:
    """What is wrong, and the path of keys and positions that leads there."""

    path: Path
    text: str

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.text}" if self.path else self.text


@dataclass(frozen=True)
class Document:
    """The one document of a file."""

    name: str
    root: yaml.Node
    data: Any
    twice: list[Problem]  # keys that stand twice in a mapping

    def place(self, path: Path) -> tuple[int, int]:
        """Return line and column of the key or item at a path, or of the nearest thing above it that is in the file."""
        node, mark = self.root, self.root.start_mark
        for step in path:
            if isinstance(node, yaml.MappingNode):
                found = [(key, value) for key, value in node.value if key.value == str(step)]
                if not found:
                    break
                key, node = found[-1]
                mark = key.start_mark
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                node = node.value[step]
                mark = node.start_mark
            else:
                break
        return mark.line + 1, mark.column

    def error(self, problems: list[Problem]) -> PipelineError:
        """Put all problems into one error, in the order of lines."""
        placed = sorted(((self.place(problem.path), problem) for problem in problems), key=lambda pair: pair[0])
        return PipelineError(*(f"{self.name}:{line}: {problem}" for (line, _), problem in placed))


def compose(name: str, text: str) -> Document:
    """Read the text of a file; ``name`` is what messages call it."""
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            raise PipelineError(f"{name}:1: empty; expected fields such as source, window, queries and sink")
        # Before it is constructed: there, the last of two equal keys wins and nothing is said.
        twice = _duplicates(name, root)
        return Document(name, root, loader.construct_document(root), twice)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise PipelineError(f"{name}:{line}: the character {chr(error.character)!r} is not accepted in YAML") from None
    except yaml.MarkedYAMLError as error:
        raise PipelineError(_in_words(name, error)) from None
    except RecursionError:
        raise PipelineError(f"{name}:1: nested too deeply; a pipeline has a few levels only") from None


def dotted(path: Path) -> str:
    """Write a path as a person would.

    >>> dotted(("queries", 1, "score", "linear", "net.bytes"))
    "queries[1].score.linear['net.bytes']"
    """
    steps = [f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{step!r}]" for step in path]
    return "".join(steps).removeprefix(".")


def _in_words(name: str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    if error.problem and "'\\t'" in error.problem:
        return f"{name}:{line}: a tab where YAML wants spaces; indent with spaces"
    context = error.context
    if context and context.startswith("while") and error.context_mark and error.context_mark.line + 1 < line:
        context += f" that began in line {error.context_mark.line + 1}"
    hint = "; text with a colon in it goes in quotes" if error.problem == COLON else ""
    return f"{name}:{line}: not YAML: {', '.join(part for part in (context, error.problem) if part)}{hint}"


def _duplicates(name: str, root: yaml.Node) -> list[Problem]:
    found: dict[int, Problem] = {}
    nodes: list[tuple[yaml.Node, Path]] = [(root, ())]
    visited = 0
    while nodes:
        node, path = nodes.pop()
        visited += 1
        if visited > MOST_NODES or len(path) > MOST_LEVELS:
            limit = f"more than {MOST_NODES:,} values" if visited > MOST_NODES else f"more than {MOST_LEVELS} levels"
            raise PipelineError(f"{name}:{node.start_mark.line + 1}: {limit}, with all aliases followed")
        if isinstance(node, yaml.SequenceNode):
            nodes += [(item, (*path, place)) for place, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            first: dict[tuple[Any, ...], yaml.Node] = {}
            for key, value in node.value:
                # A key that is a collection is refused when it is constructed.
                inside = (*path, key.value if isinstance(key, yaml.ScalarNode) else "?")
                nodes.append((value, inside))
                before = first.setdefault((key.tag, inside[-1]), key)
                if before is not key:
                    text = f"given twice, first in line {before.start_mark.line + 1}; a field stands once"
                    found[id(key)] = Problem(inside, text)
    return list(found.values())
