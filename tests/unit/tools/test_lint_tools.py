"""The scripts of the lint step in tools/."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.support import ROOT

TOOLS = ROOT / "tools"

LIST = r"""
enforced = ["docs"]

[[words]]
word = "fleet"
use = "grouped engine"
identifiers = 'fleets?'
text = '\bfleets?\b'

[[words]]
word = "place"
use = "index"
identifiers = '(?<!in_)places?'
text = '\bthe places?\b'
scope = ["comments"]

[[words]]
word = "step"
use = "task"
identifiers = 'steps?'
paths = ["src/topwatch/spark/**"]

[[allowed]]
text = 'fleet of foot'
reason = "a saying"

[[allowed]]
name = "fleet_size"
paths = ["src/topwatch/core/*.py"]
reason = "ships"
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


check_words = load("check_words")
check_module_names = load("check_module_names")
check_exceptions = load("check_exceptions")


@pytest.fixture
def check(tmp_path: Path) -> Callable[[str, str], list[str]]:
    """Check a text as that of a file, and return `line: what is shown` of each finding."""
    (tmp_path / "words.toml").write_text(LIST)
    words = check_words.WordList.read(tmp_path / "words.toml")
    return lambda path, source: [f"{f.line}: {f.shown}" for f in check_words.check_file(path, source, words)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("class FleetIds: ...", ["1: FleetIds (fleet)"]),
        ("def _new_fleet(places, *, fleets=()): ...", ["1: _new_fleet (fleet)", "1: fleets", "1: places"]),
        ("self._fleet = 1", ["1: _fleet (fleet)"]),
        ("for place, in_place in rows: ...", ["1: place"]),
        ("a = np.place(fleet.step)", []),  # names that are only used
        ("import fleet\nfrom spark import Fleet", []),
        ("import x as fleet", ["1: fleet"]),
        ("placed = replace = fleetings = 1", []),  # whole parts of names only
        ("try: ...\nexcept OSError as place: ...", ["2: place"]),
        ("with a as place, b as FLEET: ...", ["1: FLEET", "1: place"]),
        ("fleet = 1; fleet = 2", ["1: fleet"]),
        ("steps = 1", []),
        ("# a fleet, the\n# place", ["1: fleet", "1: the place"]),  # a phrase over two lines
        ("x = 1  # the\ny = 2  # place", []),  # two comments
        ('"""A.\n\n    The\n    place of a Fleet."""', ["3: The place", "4: Fleet"]),
        ('"""``engine`` and `the place`, fleet\nof foot."""', []),
        ('"""Example.\n\n    >>> fleet = 2 # the place\n    """', []),
        ('raise ValueError(f"{x}: no fleet at {y}")', ["1: fleet"]),
        ('key = "fleet"', []),  # a name in a string is no text
    ],
)
def test_words_of_python(check: Callable[[str, str], list[str]], source: str, expected: list[str]) -> None:
    assert check("src/topwatch/core/rows.py", source) == expected


def test_words_of_modules_and_paths(check: Callable[[str, str], list[str]]) -> None:
    assert check("src/topwatch/core/fleet.py", "") == ["1: fleet"]
    assert check("src/topwatch/fleets/__init__.py", "") == ["1: fleets"]
    assert check("src/topwatch/spark/operator/stateful.py", "steps = 1") == ["1: steps"]
    assert check("src/topwatch/core/rows.py", "fleet_size = 1") == []
    assert check("src/topwatch/core/kernels/rows.py", "fleet_size = 1") == ["1: fleet_size (fleet)"]


def test_words_of_markdown(check: Callable[[str, str], list[str]]) -> None:
    text = (
        "# Fleets\n\n```python\nfleet\n```\n\nThe place of the\nfleet, [a](b/fleet.md), `engine`\n\n~~~\nfleet\n~~~\n"
    )
    assert check("docs/state.md", text) == ["1: Fleets", "8: fleet"]
    changes = "# Changelog\n\nfleet\n\n## [Unreleased]\n\n- fleet\n\n## [0.1.0]\n\n- fleet\n"
    assert check("CHANGELOG.md", changes) == ["7: fleet"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('[[words]]\nword = "a"\nuse = "b"', "neither identifiers nor text"),
        ('[[words]]\nword = "a"\nuse = "b"\ntext = "a"\nscop = ["docs"]', "scop"),
        ('[[allowed]]\ntext = "a"', "say the reason"),
        ('enforce = ["docs"]', "unknown enforce"),
        ('enforced = "docs"', "expected a list"),
    ],
)
def test_mistakes_in_the_list_are_errors(tmp_path: Path, entry: str, message: str) -> None:
    (tmp_path / "words.toml").write_text(entry)
    with pytest.raises((ValueError, TypeError), match=message):
        check_words.WordList.read(tmp_path / "words.toml")


def test_only_enforced_areas_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, text in {
        "src/topwatch/spark/operator/a.py": "fleet = 1\nprint(fleet)  # fleet\n",
        "src/topwatch/core/kernels/b.py": '"""The place."""\n',
        "docs/c.md": "Nothing.\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    def run(enforced: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / "words.toml").write_text(LIST.replace('["docs"]', enforced))
        code = check_words.main(arguments, tmp_path / "words.toml")
        return code, capsys.readouterr().out

    assert run("[]") == (0, "")
    assert run('["docs", "spark/state", "spar"]') == (0, "")
    code, shown = run('["spark"]')
    assert code == 1
    assert shown.startswith("src/topwatch/spark/operator/a.py:1: fleet -> grouped engine\n")
    assert "b.py" not in shown
    assert run('["spark/operator"]', "src/topwatch/core") == (0, "")
    assert run('["core"]')[1].startswith("src/topwatch/core/kernels/b.py:1: The place -> index\n")
    assert run('["src"]')[0] == 1
    code, shown = run("[]", "--all", "src/topwatch/core")
    assert code == 1
    assert "b.py:1" in shown
    assert "a.py" not in shown
    assert run("[]", "nowhere")[0] == 2
    code, shown = run('["core"]', "--report")
    assert code == 0
    assert re.search(r"^core +0 +1  yes$", shown, re.MULTILINE)
    assert re.search(r"^spark/operator +1 +1  no$", shown, re.MULTILINE)
    assert re.search(r"^fleet +1 +1  grouped engine$", shown, re.MULTILINE)
    assert re.search(r"^ +2  fleet +fleet -> grouped engine$", shown, re.MULTILINE)


OURS = check_words.WordList.read(TOOLS / "words.toml")


@pytest.mark.parametrize(
    "source",
    [
        "class Keeper: ...",
        "def found(told, judged): ...",
        "for place in places: ...",
        "self._deaf = heard",
        "Turn = Home = Tray = 1",
        "# told of the rows that are away",
        "# the loose run's judgement, made anew",
        "# below the bar: let go of it",
        "# a fleet serves it; its place is told",
    ],
)
def test_our_list_finds(source: str) -> None:
    assert check_words.check_file("src/topwatch/monitor/x.py", source, OURS)


@pytest.mark.parametrize(
    "text",
    [
        "Rows that are found in the window; the step takes place in turn.",
        "The rest is sorted. A note says so; tell whether it is there.",
        "A bar chart and a progress bar take turns.",
        "The nearest neighbours of a point, thrown away.",
        "Served over HTTP; switched off; three decimal places.",
        "np.place(array, mask, values)",
        "Who may say what",
        "Recall and precision were above 0.9.",
        "One place chooses, in place of two.",
    ],
)
def test_our_list_leaves_plain_english(text: str) -> None:
    assert check_words.check_file("docs/x.md", text, OURS) == []
    assert check_words.check_file("src/topwatch/monitor/x.py", f'"""{text}"""', OURS) == []


def test_module_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (
        "a/__init__.py",
        "a/grid.py",
        "b/grid.py",
        "b/c/grid.py",
        "b/__init__.py",
        "__main__.py",
        "b/__main__.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    allow = check_module_names.Allowed
    assert len(check_module_names.problems(tmp_path, {})) == 1
    assert len(check_module_names.problems(tmp_path, {"grid": allow(["a", "*"], "")})) == 1  # b/c is a level deeper
    assert check_module_names.problems(tmp_path, {"grid": allow(["a", "b", "b/*"], "")}) == []
    allowed = {"grid": allow(["*", "b/c"], ""), "x": allow([], "")}
    assert "take it off" in check_module_names.problems(tmp_path, allowed)[0]
    (tmp_path / "grid").mkdir()
    (tmp_path / "grid" / "__init__.py").touch()  # a package counts as a module
    assert len(check_module_names.problems(tmp_path, {"grid": allow(["a", "b", "b/*"], "")})) == 1
    assert check_module_names.main([str(tmp_path)]) == 1
    assert check_module_names.main([str(tmp_path / "nowhere")]) == 2
    assert "rename" in capsys.readouterr().out


def test_exceptions_from_the_rules_on_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.ruff.lint]\nselect = ["PLR0913"]\npylint.max-args = 2\n'
        '[tool.ruff.lint.per-file-ignores]\n"a.py" = ["PLR0913"]\n"b.py" = ["D", "PLR0913"]\n"c.py" = ["C901"]\n'
    )
    (tmp_path / "a.py").write_text("def f(a, b, c): ...\n")
    (tmp_path / "b.py").write_text("def f(a, b): ...\n")
    assert check_exceptions.main(tmp_path) == 1
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[2] for line in shown] == ["b.py no longer breaks PLR0913", "c.py no longer breaks C901"]


def test_lock_file_names_no_index() -> None:
    lock = (ROOT / "requirements-dev.txt").read_text()
    pins = [line for line in lock.splitlines() if not line.startswith("#")]
    assert len(pins) > 50
    assert not [line for line in pins if not re.fullmatch(r"[a-z0-9-]+==[\w.!+]+( ; [^/@]+)?", line)]


FORMS = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.name)
def test_repository_files_are_yaml(file: Path) -> None:
    assert isinstance(yaml.safe_load(file.read_text(encoding="utf-8")), dict)


def test_every_lint_step_is_a_hook() -> None:
    steps = re.findall(r"\$\(BIN\)/(.*)", (ROOT / "Makefile").read_text().split("\nlint: setup\n")[1].split("\n\n")[0])
    hooks = [
        hook["entry"] for hook in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    ]
    plain = [re.sub(r" (--check|\.)(?= |$)", "", step) for step in steps]
    assert plain == [hook.removeprefix(".venv/bin/").removesuffix(" --force-exclude") for hook in hooks]
