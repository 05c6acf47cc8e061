"""Lint: private words where the field has one of its own, by the list in tools/words.toml.

Names are checked where the code defines them, so that names of NumPy and Spark are no concern; comments, docstrings,
messages and Markdown are checked as text, without code in backquotes. Only the areas that words.toml lists as
``enforced`` make the check fail.

Usage: python tools/check_words.py [paths]             errors of the enforced areas; exit code 1 where there are some
       python tools/check_words.py --all [paths]       the same for all areas
       python tools/check_words.py --report [paths]    counts by area and by word, and the names that are used most
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MOST_NAMES = 60  # that the report lists
DEFAULT_PATHS = ("src", "benchmarks", "tests", "tools", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CODE = re.compile(r"``.*?``|`[^`\n]*`", re.DOTALL)
_INDENT = re.compile(r"(?m)^[ \t]+|[ \t]+$")
_EXAMPLE = re.compile(r"(?m)^[ \t]*(?:>>>|\.\.\. ).*$")
_LINK_TARGET = re.compile(r"\]\([^)\s]*\)|<https?://[^>]*>")


class Finding(NamedTuple):
    """A word in a file: ``name`` is the identifier it is part of, empty in texts."""

    path: str
    line: int
    shown: str
    word: str
    use: str
    name: str = ""

    def __str__(self) -> str:
        """Return the line that the check prints."""
        return f"{self.path}:{self.line}: {self.shown} -> {self.use}"


@dataclass(frozen=True)
class Word:
    """An entry of the list: what not to write, what to write instead, and where the rule holds."""

    word: str
    use: str
    identifiers: re.Pattern[str] | None = None
    text: re.Pattern[str] | None = None
    scope: tuple[str, ...] = ("comments", "docs")
    paths: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def read(cls, entry: dict[str, object]) -> Word:
        """Make a word from its table; a field that there is not is an error."""
        fields = dict(entry)
        for key in ("identifiers", "text"):
            if key in fields:
                fields[key] = _part(str(fields[key])) if key == "identifiers" else _phrase(str(fields[key]))
        if not {"identifiers", "text"} & fields.keys():
            raise ValueError(f"{fields.get('word')}: neither identifiers nor text")
        fields["scope"] = _listed(fields.get("scope", cls.scope))
        fields["paths"] = tuple(_glob(path) for path in _listed(fields.get("paths", ())))
        return cls(**fields)  # type: ignore[arg-type]

    def holds(self, path: str) -> bool:
        """Return whether the rule holds in a file."""
        return not self.paths or any(glob.fullmatch(path) for glob in self.paths)


@dataclass(frozen=True)
class Allowed:
    """What the expressions catch and is right, with the reason."""

    reason: str
    text: re.Pattern[str] | None = None
    name: str = ""
    paths: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def read(cls, entry: dict[str, object]) -> Allowed:
        """Make an exception from its table; one without a reason is an error."""
        fields = dict(entry)
        if not fields.get("reason"):
            raise ValueError(f"allowed {fields.get('text', fields.get('name'))!r}: say the reason")
        if "text" in fields:
            fields["text"] = _phrase(str(fields["text"]))
        fields["paths"] = tuple(_glob(path) for path in _listed(fields.get("paths", ())))
        return cls(**fields)  # type: ignore[arg-type]

    def holds(self, path: str) -> bool:
        """Return whether the exception holds in a file."""
        return not self.paths or any(glob.fullmatch(path) for glob in self.paths)


@dataclass(frozen=True)
class WordList:
    """The whole of words.toml."""

    words: Sequence[Word]
    allowed: Sequence[Allowed] = ()
    enforced: Sequence[str] = field(default_factory=tuple)

    @classmethod
    def read(cls, file: Path) -> WordList:
        """Read the list, whose mistakes are errors here and not silently no rule."""
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        if unknown := table.keys() - {"enforced", "words", "allowed"}:
            raise ValueError(f"{file}: unknown {', '.join(sorted(unknown))}")
        return cls(
            [Word.read(entry) for entry in table.get("words", ())],
            [Allowed.read(entry) for entry in table.get("allowed", ())],
            _listed(table.get("enforced", ())),
        )

    def enforces(self, path: str) -> bool:
        """Return whether findings in a file are errors."""
        area = area_of(path)
        inside = path.startswith("src/")
        return any(
            area == entry or area.startswith(f"{entry}/") or (entry == "src" and inside) for entry in self.enforced
        )


def area_of(path: str) -> str:
    """Return the area of a file: a folder below the package, two deep at most, or another part of the repository.

    >>> area_of("src/topwatch/spark/operator/bucket.py"), area_of("src/topwatch/core/kernels/rows.py")
    ('spark/operator', 'core')
    >>> area_of("src/topwatch/__init__.py"), area_of("README.md"), area_of("benchmarks/spark.py")
    ('topwatch', 'docs', 'benchmarks')
    """
    parts = Path(path).parts
    if parts[:2] == ("src", "topwatch"):
        folders = [part for part in parts[2:-1] if part != "kernels"][:2]
        return "/".join(folders) or "topwatch"
    return "docs" if path.endswith(".md") else parts[0]


def check_file(path: str, source: str, words: WordList) -> list[Finding]:
    """Return the words in a file, line by line; ``path`` is relative to the top folder."""
    used = [word for word in words.words if word.holds(path)]
    allowed = [entry for entry in words.allowed if entry.holds(path)]
    names = {entry.name for entry in allowed}
    phrases = [entry.text for entry in allowed if entry.text]
    findings: dict[Finding, None] = {}
    if path.endswith(".md"):
        texts, scope = markdown_texts(source, only_unreleased=Path(path).name == "CHANGELOG.md"), "docs"
    else:
        texts, scope = python_texts(source), "comments"
        for line, name in defined_names(source, path):
            for word in used:
                if name not in names and word.identifiers and (match := word.identifiers.search(snake(name))):
                    shown = name if match[1] == name.lower() else f"{name} ({match[1]})"
                    findings[Finding(path, line, shown, word.word, word.use, name)] = None
    for line, text in texts:
        prose = _INDENT.sub("", _CODE.sub(_blank, text))
        for phrase in phrases:
            prose = phrase.sub(_blank, prose)
        for word in used:
            if word.text and scope in word.scope:
                for match in word.text.finditer(prose):
                    at = line + prose.count("\n", 0, match.start())
                    findings[Finding(path, at, " ".join(match[0].split()), word.word, word.use)] = None
    return sorted(findings, key=lambda finding: (finding.line, finding.name, finding.shown))


def snake(name: str) -> str:
    """Return the parts of a name in small letters.

    >>> snake("NextTurn"), snake("_next_turn"), snake("HTTPDoor2")
    ('next_turn', 'next_turn', 'http_door_2')
    """
    return "_".join(part.lower() for part in _PART.findall(name))


def defined_names(source: str, path: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of all that a module defines, itself included."""
    file = Path(path)
    yield 1, file.parent.name if file.stem == "__init__" else file.stem
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield first line and text of comments, docstrings and messages; a string without a blank is no text."""
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and (token.start[0] != last + 1 or token.line[: token.start[1]].strip()):
                yield start, "\n".join(block)
                block = []
            start = start if block else token.start[0]
            last = token.start[0]
            block.append(token.string.lstrip("#:! "))
    if block:
        yield start, "\n".join(block)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            multiline = (node.end_lineno or node.lineno) > node.lineno
            yield node.lineno, _EXAMPLE.sub("", node.value) if multiline else node.value


def markdown_texts(source: str, only_unreleased: bool) -> Iterator[tuple[int, str]]:
    """Yield first line and text of each paragraph outside of code blocks; of a changelog, what is not yet released."""
    fence = ""
    wanted = not only_unreleased
    block: list[str] = []
    start = 1
    for number, line in enumerate([*source.splitlines(), ""], 1):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if only_unreleased and not fence and re.match(r"## ", line):
            wanted = "[unreleased]" in line.lower()
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        if not line.strip() or fence or mark:
            if block:
                yield start, "\n".join(block)
            block = []
        elif wanted:
            start = start if block else number
            block.append(_LINK_TARGET.sub(_blank, line))


def main(arguments: Sequence[str], list_file: Path = Path("tools/words.toml")) -> int:
    """Check files, print what is wrong or the report, and return the exit code."""
    parser = argparse.ArgumentParser(description="Private words, and what to write instead.")
    parser.add_argument("paths", nargs="*", help=f"files and folders; {', '.join(DEFAULT_PATHS)} where none is given")
    parser.add_argument("--all", action="store_true", help="print the findings of all areas")
    parser.add_argument("--report", action="store_true", help="print counts; nothing is an error")
    options = parser.parse_args(arguments)
    missing = [path for path in options.paths if not Path(path).exists()]
    if missing:
        print(f"no such file or folder: {', '.join(missing)}")
        return 2
    words = WordList.read(list_file)
    files = files_below(options.paths or [path for path in DEFAULT_PATHS if Path(path).exists()])
    sources = {path.as_posix(): path.read_text(encoding="utf-8") for path in files}
    findings = [finding for path, source in sources.items() for finding in check_file(path, source, words)]
    if options.report:
        print("\n".join(report(findings, sources, words)))
        return 0
    shown = [finding for finding in findings if options.all or words.enforces(finding.path)]
    print(*shown, sep="\n", end="\n" if shown else "")
    if shown:
        print(f"{len(shown)} words of tools/words.toml; -> says what to write instead")
    return 1 if shown else 0


def files_below(paths: Sequence[str]) -> list[Path]:
    """Return the Python and Markdown files of some files and folders, relative to the top folder, in order."""
    here = Path.cwd()
    files: set[Path] = set()
    for path in map(Path, paths):
        files.update([path] if path.is_file() else (each for each in path.rglob("*") if each.suffix in {".py", ".md"}))
    return sorted(file.resolve().relative_to(here) for file in files if file.suffix in {".py", ".md"})


def report(findings: Sequence[Finding], sources: dict[str, str], words: WordList) -> Iterator[str]:
    """Yield counts by area and by word, then the names to change with the number of their uses."""
    enforced = {area_of(path): words.enforces(path) for path in sources}
    rows = [(area, [f for f in findings if area_of(f.path) == area]) for area in sorted(enforced)]
    yield f"{'area':32}{'names':>7}{'texts':>7}  enforced"
    for area, here in [*rows, ("all", list(findings))]:
        yield _counted(area, here) + ("" if area not in enforced else "yes" if enforced[area] else "no")
    yield f"\n{'word':32}{'names':>7}{'texts':>7}  write"
    for word in words.words:
        yield _counted(word.word, [finding for finding in findings if finding.word == word.word]) + word.use
    yield "\nnames to change, by how often the code writes them"
    uses = Counter(name for path, source in sources.items() if path.endswith(".py") for name in written_names(source))
    names = {finding.name: finding for finding in findings if finding.name}
    for name in sorted(names, key=lambda name: (-uses[name], name))[:MOST_NAMES]:
        yield f"{uses[name]:6}  {name:28} {names[name].word} -> {names[name].use}"


def _counted(title: str, findings: Sequence[Finding]) -> str:
    names = sum(1 for finding in findings if finding.name)
    return f"{title:32}{names:7}{len(findings) - names:7}  "


def written_names(source: str) -> Iterator[str]:
    """Yield the names in a source, each as often as it is written."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.string


def _part(pattern: str) -> re.Pattern[str]:
    return re.compile(f"(?:^|_)({pattern})(?:_|$)")


def _phrase(pattern: str) -> re.Pattern[str]:
    """Compile an expression for texts, in which a blank may be the end of a line."""
    return re.compile(pattern.replace(" ", r"\s"), re.IGNORECASE)


def _listed(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"expected a list of strings, got {value!r}")
    return tuple(value)


def _glob(pattern: str) -> re.Pattern[str]:
    """Compile a glob in which ``*`` stops at a slash and ``**`` does not."""
    parts = re.split(r"(\*\*/?|\*)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts))


def _blank(match: re.Match[str]) -> str:
    """Return what keeps the numbers of lines, and words on both sides apart."""
    return " # " + "\n" * match[0].count("\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
