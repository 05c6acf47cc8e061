"""What a measurement ran on: numbers without versions cannot be compared."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from topwatch import __version__


def describe() -> dict[str, str]:
    """Return versions of what computes, the processor and how many cores this process may use.

    >>> list(describe())
    ['topwatch', 'Python', 'NumPy', 'Numba', 'CPU', 'cores']
    """
    return {
        "topwatch": __version__,
        "Python": platform.python_version(),
        "NumPy": metadata.version("numpy"),
        "Numba": metadata.version("numba"),
        "CPU": _processor(),
        "cores": str(_cores()),
    }


def legend() -> str:
    """Return the same in a line."""
    parts = describe()
    cpu, cores = parts.pop("CPU"), parts.pop("cores")
    versions = " · ".join(f"{name} {version}" for name, version in parts.items())
    return f"{versions} · {cpu}, one of {cores} cores used"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere the platform says it
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
