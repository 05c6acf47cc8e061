"""YAML to nodes: every value with its line, from the parser's events, one after the other.

Only plain values are made: text, numbers, true, false, null, lists and mappings. What else YAML has (other tags,
collections as keys, aliases that contain themselves) is refused at its line. Nothing here recurses, and limits are
checked while the events come, so that neither a deep nor a short file that unfolds to billions of values costs memory.

Words are read as YAML 1.2 does: ``no`` and ``on`` are text, ``1e-3`` is a number, a date stays text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from topwatch.query.extras import require

require("yaml")
import yaml as yaml  # noqa: E402 - a line that says what to install comes first

# A short file can unfold to billions of values.
MOST_NODES = 1_000_000
MOST_LEVELS = 50

# The messages of libyaml are harder to understand than those of PyYAML's own parser, which is ten times slower.
MOST_TO_READ_AGAIN = 256_000

ACCEPTED = "text, numbers, true, false, null, lists and mappings"

_CORE = "tag:yaml.org,2002:"
_KINDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "null": "null"}
_INT = r"[-+]?(?:0|[1-9][0-9_]{0,30})"
_FLOAT = (
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*|(?=[eE]))|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]{1,30})?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_IS_INT, _IS_FLOAT = re.compile(_INT), re.compile(_FLOAT)
_MERGE = "<<"

FieldPath = tuple[str | int, ...]
Key = str | int


class NotAPipelineError(Exception):
    """A file that is read no further: line, path and what is wrong."""

    def __init__(self, line: int, path: FieldPath, text: str) -> None:
        super().__init__(line, path, text)
        self.line, self.path, self.text = line, path, text


@dataclass(slots=True)
class Node:
    """A value with its position in the file; a list of nodes, or of pairs of key and node, instead of a collection.

    Attributes
    ----------
    data : object
        The plain value.
    line, column : int
        From 1 and from 0.
    items, pairs : list or None
        What a list or a mapping holds; the line and column of a pair are those of its key.
    size, height : int
        How many values and levels it has, with all aliases followed.
    """

    data: Any
    line: int
    column: int
    items: list[Node] | None = None
    pairs: list[tuple[Key, int, int, Node]] | None = None
    size: int = 1
    height: int = 1


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come."""

    node: Node
    anchor: str | None
    key: tuple[Key, int, int] | None = None  # of the value that comes next
    lines: dict[Key, int] = field(default_factory=dict)  # where keys stand first
    merged: dict[Key, tuple[Key, int, int, Node]] = field(default_factory=dict)
    merges: int = 0  # the line of <<


def nodes(text: str, twice: list[tuple[FieldPath, str]]) -> Node | None:
    """Return the root of the one document of a text, or None where there is none; keys given twice go to ``twice``.

    Raises
    ------
    NotAPipelineError
        Where something is not accepted.
    yaml.YAMLError
        Where it is not YAML.
    """
    if yaml.__with_libyaml__:
        try:
            return _composed(yaml.CSafeLoader(text), twice)
        except yaml.YAMLError:
            if len(text) > MOST_TO_READ_AGAIN:
                raise
            twice.clear()
    return _composed(yaml.SafeLoader(text), twice)


def _composed(parser: Any, twice: list[tuple[FieldPath, str]]) -> Node | None:
    builder = _Builder(twice)
    try:
        for event in _events(parser):
            builder.take(event)
    finally:
        parser.dispose()
    return builder.root


def _events(parser: Any) -> Iterator[Any]:
    while True:
        try:
            event = parser.get_event()
        except (ValueError, OverflowError):  # PyYAML's own of an escape beyond the last character
            text = "not YAML: an escape in quotes names no character"
            raise NotAPipelineError(getattr(parser, "line", 0) + 1, (), text) from None
        if isinstance(event, yaml.StreamEndEvent):
            return
        yield event


class _Builder:
    """Makes nodes of events."""

    def __init__(self, twice: list[tuple[FieldPath, str]]) -> None:
        self.root: Node | None = None
        self.twice = twice
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._total = 0
        self._documents = 0

    def take(self, event: Any) -> None:
        """Take the next event."""
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._wrong(
                    event, "not YAML: expected a single document in the stream, but found another document", ()
                )

    def _scalar(self, event: Any) -> None:
        match = yaml.reader.Reader.NON_PRINTABLE.search(event.value)
        if match:
            raise self._wrong(event, f"the character {match[0]!r} is not accepted")
        if self._awaits_key():
            plain = event.tag is None and event.implicit[0]
            self._key(event, _MERGE if plain and event.value == _MERGE else self._value(event), plain)
            return
        mark = event.start_mark
        self._add(Node(self._value(event), mark.line + 1, mark.column), event.anchor)

    def _value(self, event: Any) -> Any:
        text: str = event.value
        if event.tag in (None, "!"):
            return _resolved(text) if event.implicit[0] else text
        kind = event.tag.removeprefix(_CORE)
        if kind not in _KINDS or kind == event.tag:
            raise self._tag(event)
        value = text if kind == "str" else _resolved(text)
        value = float(value) if kind == "float" and type(value) is int else value
        if not isinstance(value, {"str": str, "int": int, "float": float, "bool": bool, "null": type(None)}[kind]) or (
            kind == "int" and isinstance(value, bool)
        ):
            raise self._wrong(event, f"!!{kind}: expected {_KINDS[kind]}, got {_short(text)}")
        return value

    def _alias(self, event: Any) -> None:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise self._wrong(event, f"the alias {_short(event.anchor)} names no anchor that has ended before it")
        if self._awaits_key():
            if node.items is not None or node.pairs is not None:
                raise self._wrong(event, "a collection as a key; expected text or a whole number")
            self._key(event, node.data, False)
            return
        self._add(node, None, event)

    def _begin(self, event: Any) -> None:
        mark = event.start_mark
        is_list = isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in (None, "!", _CORE + ("seq" if is_list else "map")):
            raise self._tag(event)
        if self._awaits_key():
            kind = "list" if is_list else "mapping"
            raise self._wrong(event, f"a {kind} as a key; expected text or a whole number")
        if len(self._stack) >= MOST_LEVELS:
            raise self._wrong(event, "nested too deeply; a pipeline has a few levels only", ())
        node = Node([] if is_list else {}, mark.line + 1, mark.column)
        if is_list:
            node.items = []
        else:
            node.pairs = []
        self._stack.append(_Open(node, event.anchor))

    def _end(self) -> None:
        ended = self._stack.pop()
        node = ended.node
        if node.pairs is not None and ended.merged:
            node.pairs = [pair for key, pair in ended.merged.items() if key not in ended.lines] + node.pairs
            node.data = {key: value.data for key, _, _, value in node.pairs}
        self._add(node, ended.anchor)

    def _awaits_key(self) -> bool:
        return bool(self._stack) and self._stack[-1].node.pairs is not None and self._stack[-1].key is None

    def _key(self, event: Any, key: Any, plain: bool) -> None:
        top, line, column = self._stack[-1], event.start_mark.line + 1, event.start_mark.column
        if key == _MERGE and plain:
            if top.merges:
                self.twice.append(((*self._path(), _MERGE), _again(top.merges)))
            top.merges = line
        elif isinstance(key, bool) or not isinstance(key, str | int):
            written = "null" if key is None else str(key).lower()
            raise self._wrong(event, f"{written} as a key; expected text or a whole number; in quotes it is text")
        elif key in top.lines:
            self.twice.append(((*self._path(), key), _again(top.lines[key])))
        else:
            top.lines[key] = line
        top.key = (_Merge(key) if key == _MERGE and plain else key, line, column)

    def _add(self, node: Node, anchor: str | None, alias: Any = None) -> None:
        """Put a node that has ended where it belongs; an alias follows again what its node holds."""
        where = alias.start_mark.line + 1 if alias else node.line
        self._total += node.size if alias else 1
        if self._total > MOST_NODES:
            text = f"more than {MOST_NODES:,} values, with all aliases followed"
            raise NotAPipelineError(where, self._path(), text)
        if len(self._stack) + node.height > MOST_LEVELS + 1:
            text = f"more than {MOST_LEVELS} levels, with all aliases followed"
            raise NotAPipelineError(where, self._path(), text)
        if anchor:
            self._anchors[anchor] = node
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1].node
        top.size += node.size
        top.height = max(top.height, node.height + 1)
        if top.items is not None:
            top.items.append(node)
            top.data.append(node.data)
        else:
            self._pair(node, where)

    def _pair(self, node: Node, line: int) -> None:
        opened = self._stack[-1]
        assert opened.key is not None
        assert opened.node.pairs is not None
        key = opened.key[0]
        if isinstance(key, _Merge):
            # Of several, the first that has a key counts.
            for part in reversed([node] if node.items is None else node.items):
                if part.pairs is None:
                    text = "expected a mapping, or a list of them, such as *name"
                    raise NotAPipelineError(line, self._path(), text)
                for pair in part.pairs:
                    opened.merged.pop(pair[0], None)
                for pair in part.pairs:
                    opened.merged[pair[0]] = pair
        else:
            opened.node.pairs.append((*opened.key, node))
            opened.node.data[key] = node.data
        opened.key = None

    def _path(self) -> FieldPath:
        """The keys and positions that lead to what comes next."""
        path: list[str | int] = []
        for opened in self._stack:
            if opened.node.items is not None:
                path.append(len(opened.node.items))
            elif opened.key is not None:
                path.append(opened.key[0])
        return tuple(path)

    def _tag(self, event: Any) -> NotAPipelineError:
        tag = event.tag
        written = f"!!{tag.removeprefix(_CORE)}" if tag.startswith(_CORE) else tag
        return self._wrong(event, f"the tag {_short(written)} is not accepted; accepted are {ACCEPTED}")

    def _wrong(self, event: Any, text: str, path: FieldPath | None = None) -> NotAPipelineError:
        return NotAPipelineError(event.start_mark.line + 1, self._path() if path is None else path, text)


class _Merge(str):
    """The key ``<<`` where it is not in quotes."""

    __slots__ = ()


def _resolved(text: str) -> Any:
    """Return what a word without quotes and tag is."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "-+.0123456789":
        if _IS_INT.fullmatch(text):
            return int(text.replace("_", ""))
        if _IS_FLOAT.fullmatch(text):
            plain = text.replace("_", "").lower()
            if plain.endswith((".inf", ".nan")):
                return math.nan if plain == ".nan" else math.copysign(math.inf, -1.0 if plain[0] == "-" else 1.0)
            return float(plain)
    return text


def _again(line: int) -> str:
    return f"given twice, first in line {line}; a field stands once"


def _short(text: str) -> str:
    written = repr(text)
    return written if len(written) <= 60 else written[:57] + "..."
