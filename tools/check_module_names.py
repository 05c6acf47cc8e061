"""Lint: a module or package name stands for one thing in the whole package.

Two modules of one name make every search and every traceback ambiguous. Where both mean the same, ``ALLOWED`` lists the
name, the folders that may have it and the reason.

Usage: python tools/check_module_names.py [folder, default src/topwatch]
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple


class Allowed(NamedTuple):
    """The folders, as globs, in which a name may occur, and why."""

    folders: Sequence[str]
    reason: str


ALLOWED: Mapping[str, Allowed] = {
    "kernels": Allowed(["core", "tables", "algorithms/*"], "the compiled functions of the package around it"),
    "engine": Allowed(["core", "algorithms/*"], "core has the protocol, each family its implementation"),
    "grid": Allowed(["algorithms/topk", "algorithms/dominating"], "the cells that a family sorts its rows into"),
    "skyline": Allowed(["algorithms", "tables"], "the query Skyline, over a stream and over a table"),
    "planner": Allowed(["monitor", "spark"], "chooses how queries are served: in a monitor, and on Spark around it"),
    "levels": Allowed(["tables", "tables/kernels"], "levels of values among bounds, and their compiled part"),
    "monitor": Allowed(["", "monitor"], "the package and the class that it is named after"),
}


def shared_names(package: Path) -> dict[str, list[Path]]:
    """Return the names that several modules or packages have, with the paths of these."""
    paths = defaultdict(list)
    for file in sorted(package.rglob("*.py")):
        module = file.parent if file.name == "__init__.py" else file
        if module != package and not file.name.startswith("__main__"):
            paths[module.stem].append(module.relative_to(package))
    return {name: same for name, same in sorted(paths.items()) if len(same) > 1}


def covers(glob: str, folder: str) -> bool:
    """Return whether a glob matches a folder; a star stands for one level."""
    return glob.count("/") == folder.count("/") and fnmatchcase(folder, glob)


def problems(package: Path, allowed: Mapping[str, Allowed]) -> list[str]:
    """Return a line for each name that is shared without a reason."""
    lines = []
    shared = shared_names(package)
    for name, paths in shared.items():
        folders = [path.parent.as_posix().removeprefix(".") for path in paths]
        globs = allowed[name].folders if name in allowed else ()
        if not all(any(covers(glob, folder) for glob in globs) for folder in folders):
            listed = ", ".join((package / path).as_posix() for path in paths)
            lines.append(f"{name}: one name, several modules: {listed}; rename, or give a reason in ALLOWED")
    lines += [
        f"{name}: allowed, but no two modules have this name: take it off ALLOWED"
        for name in allowed
        if name not in shared
    ]
    return lines


def main(arguments: Sequence[str]) -> int:
    """Print the problems, and return the exit code."""
    package = Path(arguments[0] if arguments else "src/topwatch")
    if not package.is_dir():
        print(f"{package}: no such folder")
        return 2
    lines = problems(package, ALLOWED)
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
