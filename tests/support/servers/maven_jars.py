"""Jars that tests need, fetched by the Ivy that comes with pyspark and kept in a cache for later runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pyspark

BUNDLED = Path(pyspark.__file__).parent / "jars"
_TIMEOUT = 240.0


class UnavailableError(Exception):
    """Something the tests need is not on this machine and cannot be had; the message says what to install."""


class Module(NamedTuple):
    """A module by its Maven coordinates; ``alone``: without what it depends on."""

    group: str
    name: str
    version: str
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


def java() -> str:
    """Return the path of the ``java`` that pyspark would start."""
    java_home = os.environ.get("JAVA_HOME")
    result = shutil.which("java", path=os.path.join(java_home, "bin")) if java_home else shutil.which("java")
    if result is None:
        raise UnavailableError(
            "no java: install a Java 17 runtime (on Debian: apt-get install openjdk-17-jre-headless)"
        )
    return result


def fetch(*modules: Module) -> list[Path]:
    """Return the jars of these modules, from the cache or else from the repositories Ivy knows by itself."""
    names = " ".join(str(module) for module in modules)
    key = hashlib.sha256(repr(modules).encode()).hexdigest()[:12]
    folder = _cache() / f"{modules[0].name}-{modules[0].version}-{key}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            _retrieve(modules, names, Path(scratch))
            try:
                # A folder that exists is a whole one: two test runs at once do not see each other's halves.
                os.rename(Path(scratch) / "jars", folder)
            except OSError:
                if not folder.is_dir():
                    raise
    return sorted(folder.glob("*.jar"))


def _retrieve(modules: tuple[Module, ...], names: str, scratch: Path) -> None:
    wanted = "".join(
        f'<dependency org="{m.group}" name="{m.name}" rev="{m.version}" conf="default->default"'
        f' transitive="{str(not m.alone).lower()}"/>'
        for m in modules
    )
    request = scratch / "ivy.xml"
    request.write_text(
        '<ivy-module version="2.0"><info organisation="topwatch" module="tests"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )
    (ivy,) = BUNDLED.glob("ivy-*.jar")
    command = [java(), "-jar", ivy, "-warn", "-cache", _cache() / "ivy", "-types", "jar", "bundle", "-ivy", request]
    command += ["-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"no jars of {names}: no answer in {_TIMEOUT:.0f} s") from None
    missing = [line.strip(" :\t") for line in done.stdout.splitlines() if line.rstrip().endswith(": not found")]
    if done.returncode or not list((scratch / "jars").glob("*.jar")):
        reason = missing[0] if missing else (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise UnavailableError(f"no jars of {names}: {reason}; connect this machine to a Maven repository")


def _cache() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(caches) / "topwatch-tests"
