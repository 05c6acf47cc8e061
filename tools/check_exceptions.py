"""Lint: a file is excused from the rules on size only as long as it breaks them.

``pyproject.toml`` lists under ``per-file-ignores`` the files whose functions have too many arguments (PLR0913) or too
many branches (C901). This check reports a line of that list that nothing needs any more, so that the list can only
shrink.

Usage: python tools/check_exceptions.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

RULES = ("C901", "PLR0913")
RUFF = Path(sysconfig.get_path("scripts"), "ruff")


def excused(pyproject: str) -> set[tuple[str, str]]:
    """Return file and rule of every exception from the rules on size."""
    listed = tomllib.loads(pyproject)["tool"]["ruff"]["lint"].get("per-file-ignores", {})
    return {(path, rule) for path, rules in listed.items() for rule in rules if rule in RULES}


def violated(root: Path) -> set[tuple[str, str]]:
    """Return file and rule of every function that breaks a rule on size."""
    command = [str(RUFF), "check", "--select", ",".join(RULES), "--config", "lint.per-file-ignores={}"]
    command += ["--output-format", "json", "--exit-zero", "."]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    violations: Sequence[Mapping[str, str]] = json.loads(done.stdout)
    return {(Path(each["filename"]).relative_to(root.resolve()).as_posix(), each["code"]) for each in violations}


def main(root: Path) -> int:
    """Print the exceptions that nothing needs, and return the exit code."""
    stale = sorted(excused((root / "pyproject.toml").read_text(encoding="utf-8")) - violated(root))
    for path, rule in stale:
        print(f"pyproject.toml: per-file-ignores: {path} no longer breaks {rule}: take it off the list")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(Path()))
