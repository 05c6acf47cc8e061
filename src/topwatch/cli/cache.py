"""``topwatch cache``: what is kept between starts, and removing it.

The cache has two kinds of entries: folders of compiled kernels, each named after a hash of the sources, and archives of
Java's classes, each named after the versions of Java and Spark. Everything in it is made again when it is needed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import click

from topwatch.query.windows import bytes_in_words

ALL = click.option("--all", "everything", is_flag=True, help="Also what this version uses; it is made again.")


@dataclass(frozen=True)
class Entry:
    """What is kept for one version.

    Attributes
    ----------
    root, name : str
        Folder of the cache, and the name in it.
    kind : str
        What it is.
    paths : tuple of str
        Its files.
    bytes : int
        How much they have.
    used : float
        When the newest of them was written.
    current : bool or None
        Whether this version uses it; None where that is not known.
    """

    root: str
    name: str
    kind: str
    paths: tuple[str, ...]
    bytes: int
    used: float
    current: bool | None


@click.group()
def cache() -> None:
    """Show or remove what is kept between starts: compiled kernels and the archive of Java's classes."""


@cache.command()
def info() -> None:
    """Say what is kept, where, how big it is and whether this version uses it. Removes nothing."""
    listed, refused = _entries(), _refused()
    for root in dict.fromkeys(entry.root for entry in listed):
        click.echo(root)
        for entry in listed:
            if entry.root == root:
                click.echo(f"  {_line(entry)}")
    for problem in refused:
        click.echo(f"not used: {problem}")
    if not listed:
        click.echo(f"the cache is empty; it will be in {_roots()[0]}")
        return
    others = sum(entry.bytes for entry in listed if entry.current is False)
    click.echo(
        f"{bytes_in_words(sum(entry.bytes for entry in listed))} in all, {bytes_in_words(others)} of other versions"
    )


@cache.command()
@ALL
def clear(everything: bool) -> None:
    """Remove what other versions have left: of topwatch, Python, Numba and NumPy, or of Java and Spark.

    What is not known to be of another version stays. A process that is running may use what is removed: it goes on, and
    later ones compile again.
    """
    listed = _entries()
    chosen = [entry for entry in listed if everything or entry.current is False]
    freed = 0
    for entry in chosen:
        left = _remove(entry)
        freed += entry.bytes - left
        click.echo(
            f"{'removed' if not left else 'could not remove all of'} {_path(entry)} ({bytes_in_words(entry.bytes)})"
        )
    kept = len(listed) - len(chosen)
    hint = "; --all removes these too" if kept else ""
    click.echo(f"{bytes_in_words(freed)} removed, {kept} {'entry' if kept == 1 else 'entries'} kept{hint}")


def _entries() -> list[Entry]:
    """Return what there is in all folders of the cache that are this user's own."""
    from topwatch.core.kernel_cache import KERNELS, distrust, sources_hash
    from topwatch.spark.node.class_data import FOLDER

    version = sources_hash()
    current = f"{KERNELS}{version}" if version is not None else None
    result: list[Entry] = []
    for root in _roots():
        if not os.path.isdir(root) or distrust(root):
            continue
        for name in sorted(os.listdir(root)):
            path = os.path.join(root, name)
            if os.path.islink(path) or not os.path.isdir(path) or distrust(path):
                continue
            if name.startswith(KERNELS):
                known = None if current is None else name == current
                result.append(_entry(root, name, "compiled kernels", list(_files(path)), known))
            elif name == FOLDER:
                result += _archives(root, path)
    return result


def _archives(root: str, folder: str) -> Iterator[Entry]:
    """Yield the archives of Java's classes; what Java has not come to the end of belongs to its archive."""
    from topwatch.spark.node.class_data import ENDING, version_of

    try:
        version = version_of()
    except ImportError:
        version = None
    files: dict[str, list[str]] = {}
    for path in _files(folder):
        files.setdefault(os.path.basename(path).partition(ENDING)[0], []).append(path)
    for name, paths in sorted(files.items()):
        known = None if version is None else name == version
        yield _entry(root, os.path.join(os.path.basename(folder), name + ENDING), "Java's classes", paths, known)


def _entry(root: str, name: str, kind: str, paths: list[str], current: bool | None) -> Entry:
    entry = Entry(root, name, kind, tuple(paths), 0, 0.0, current)
    for path in paths:
        with suppress(OSError):  # another process may have removed it
            about = os.lstat(path)
            entry = replace(entry, bytes=entry.bytes + about.st_size, used=max(entry.used, about.st_mtime))
    return entry


def _files(folder: str) -> Iterator[str]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_file(follow_symlinks=False):
            yield entry.path


def _remove(entry: Entry) -> int:
    """Remove an entry; return how many bytes could not be removed."""
    if entry.current is False and os.path.isdir(_path(entry)):
        shutil.rmtree(_path(entry), ignore_errors=True)
    for path in entry.paths:  # the folder of this version stays: processes that run write into it
        with suppress(OSError):
            os.unlink(path)
    return sum(os.lstat(path).st_size for path in entry.paths if os.path.lexists(path))


def _refused() -> list[str]:
    from topwatch.core.kernel_cache import distrust

    problems = (distrust(root) for root in _roots() if os.path.isdir(root))
    return [problem for problem in problems if problem]


def _roots() -> list[str]:
    from topwatch.core.kernel_cache import cache_roots

    return list(dict.fromkeys(map(os.path.abspath, cache_roots())))


def _path(entry: Entry) -> str:
    return os.path.join(entry.root, entry.name)


def _line(entry: Entry) -> str:
    count = f"{len(entry.paths):,} file{'' if len(entry.paths) == 1 else 's'}"
    state = {True: "current", False: "of another version", None: "not known whether current"}[entry.current]
    written = time.strftime("%Y-%m-%d", time.localtime(entry.used)) if entry.used else "never"
    return f"{entry.name}: {entry.kind}, {state}, {count}, {bytes_in_words(entry.bytes)}, last written {written}"
