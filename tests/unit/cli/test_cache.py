"""``topwatch cache``: what is kept is listed by version, and removed by version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from topwatch.cli.main import cli
from topwatch.core import kernel_cache
from topwatch.spark.node import class_data

CURRENT, OTHER = f"{kernel_cache.KERNELS}{kernel_cache.sources_hash()}", f"{kernel_cache.KERNELS}0123456789abcdef"
JAVA = "feedfeedfeedfeed"
MOMENT = 1_700_000_000  # 2023-11-14


def run(*arguments: str) -> list[str]:
    done = CliRunner().invoke(cli, ["cache", *arguments])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with entries of this and of other versions, and nowhere else one."""
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    monkeypatch.setenv("TOPWATCH_CACHE_DIR", str(root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    monkeypatch.setattr(class_data, "version_of", lambda: JAVA)
    return root


def fill(root: Path, *, java: bool = True) -> None:
    sizes = {f"{CURRENT}/a.kernel": 1000, f"{CURRENT}/b.kernel": 500, f"{OTHER}/a.kernel": 2000, "mine.txt": 7}
    if java:
        sizes |= {f"classes/{JAVA}.jsa": 3_000_000, "classes/aaaa.jsa": 4_000_000, "classes/aaaa.jsa.123.good": 0}
    for name, size in sizes.items():
        path = root / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (MOMENT, MOMENT))


def left(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_an_empty_cache(root: Path) -> None:
    assert run("info") == [f"the cache is empty; it will be in {root}"]
    assert run("clear") == ["0 bytes removed, 0 entries kept"]
    root.rmdir()
    assert run("info") == [f"the cache is empty; it will be in {root}"]


def test_info(root: Path) -> None:
    fill(root)
    before = left(root)
    first, *lines, last = run("info")
    assert first == str(root)
    expected = {
        f"  classes/{JAVA}.jsa: Java's classes, current, 1 file, 3.0 MB, last written 2023-11-",
        "  classes/aaaa.jsa: Java's classes, of another version, 2 files, 4.0 MB, last written 2023-11-",
        f"  {CURRENT}: compiled kernels, current, 2 files, 2 kB, last written 2023-11-",
        f"  {OTHER}: compiled kernels, of another version, 1 file, 2 kB, last written 2023-11-",
    }
    assert {line[:-2] for line in lines} == expected
    assert last == "7.0 MB in all, 4.0 MB of other versions"
    assert left(root) == before


def test_clear_removes_other_versions(root: Path) -> None:
    fill(root)
    assert run("clear") == [
        f"removed {root}/classes/aaaa.jsa (4.0 MB)",
        f"removed {root}/{OTHER} (2 kB)",
        "4.0 MB removed, 2 entries kept; --all removes these too",
    ]
    kept = {CURRENT, f"{CURRENT}/a.kernel", f"{CURRENT}/b.kernel", "classes", f"classes/{JAVA}.jsa", "mine.txt"}
    assert left(root) == kept
    assert run("clear") == ["0 bytes removed, 2 entries kept; --all removes these too"]


def test_clear_all_leaves_what_is_not_the_caches_own(root: Path) -> None:
    fill(root)
    assert run("clear", "--all")[-1] == "7.0 MB removed, 0 entries kept"
    assert left(root) == {CURRENT, "classes", "mine.txt"}


def test_where_the_version_is_not_known_archives_stay(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(root)

    def absent() -> None:
        raise ModuleNotFoundError("No module named 'pyspark'")

    monkeypatch.setattr(class_data, "version_of", absent)
    assert sum("not known whether current" in line for line in run("info")) == 2
    run("clear")
    assert {"classes/aaaa.jsa", f"classes/{JAVA}.jsa"} <= left(root)
    run("clear", "--all")
    assert not any(name.startswith("classes/") for name in left(root))


def test_folders_of_others_and_links_are_left_alone(root: Path, tmp_path: Path) -> None:
    fill(root, java=False)
    aside = tmp_path / "aside"
    aside.mkdir()
    (aside / "precious").write_text("x")
    (root / f"{kernel_cache.KERNELS}link").symlink_to(aside)
    run("clear", "--all")
    assert (aside / "precious").exists()
    fill(root, java=False)
    root.chmod(0o777)
    lines = run("info")
    assert any(line.startswith(f"not used: {root} can be written by other users") for line in lines)
    run("clear", "--all")
    assert (root / OTHER / "a.kernel").exists()
