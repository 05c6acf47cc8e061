"""Every ``>>>`` example of the README and of docs/ runs, page by page; links lead somewhere, pipelines can be read.

pytest's own ``--doctest-glob`` takes the line that closes a fenced block for output of the last example.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.registered import registered_as_before
from topwatch.spark.pipeline.config.reading import parse

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def the_registry_as_it_was() -> Iterator[None]:
    """Pages may register algorithms, which no other test of this process should meet."""
    with registered_as_before():
        yield


def run(text: str, name: str) -> doctest.TestResults:
    # Blank lines in place of the fences keep the line numbers that failures show.
    text = re.sub(r"^\s*(```|~~~).*$", "", text, flags=re.MULTILINE)
    page = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, Path(name).stem, name, 0)
    return doctest.DocTestRunner(optionflags=FLAGS).run(page)


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in PAGES])
def test_examples_of(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run(text, page).failed == 0


def test_an_example_that_is_wrong_fails() -> None:
    right, wrong = "```python\n>>> 1 + 1\n2\n```\n", "```python\n>>> 1 + 1\n3\n```\n"
    assert run(right, "right.md") == (0, 1)
    assert run(wrong, "wrong.md") == (1, 1)


def links(text: str) -> list[str]:
    """Return where links lead, without those in code and those to other sites."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    result = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", text, flags=re.MULTILINE)
    return [link for pair in result for link in pair if link and not re.match(r"[a-z]+:|#", link)]


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in LINKED])
def test_links_of(page: str) -> None:
    path = ROOT / page
    broken = [
        link for link in links(path.read_text(encoding="utf-8")) if not (path.parent / link.split("#")[0]).exists()
    ]
    assert broken == []


def test_a_link_that_is_broken_is_seen() -> None:
    text = "[here](a.md#there) [there](https://b.example) `[code](c.md)` ![picture](d.svg)\n[e]: f.md\n"
    assert links(text) == ["a.md#there", "d.svg", "f.md"]


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in PAGES])
def test_pipelines_of(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```yaml\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        assert parse(block).queries
