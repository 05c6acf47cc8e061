"""What a target is, and how its cases are made, run, saved and read again."""

from __future__ import annotations

import json
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.sizes import COMPILED

Case = dict[str, Any]


def nothing_simpler(case: Case) -> Iterator[Case]:
    """For cases of which only steps can be left out."""
    return iter(())


@dataclass(frozen=True)
class Target:
    """Something that is fuzzed.

    Attributes
    ----------
    name : str
        What it is called.
    make : callable
        Makes a case of random numbers: a dict that JSON can hold. What is in its list ``steps`` can be left out.
    run : callable
        Runs a case; whatever it raises is a failure.
    simpler : callable
        Returns cases that are simpler than the one given in another way than by leaving out steps.
    share : float
        Of the time.
    short : int
        How many cases ``make test`` runs.
    """

    name: str
    make: Callable[[np.random.Generator], Case]
    run: Callable[[Case], None]
    simpler: Callable[[Case], Iterator[Case]] = nothing_simpler
    share: float = 1.0
    short: int = 20


@dataclass(frozen=True)
class Outcome:
    """How a case went; ``kind`` is empty where it is fine, and equal for failures that are the same."""

    kind: str = ""
    text: str = ""
    seconds: float = 0.0


def numbers_of(target: str, seed: int, number: int) -> np.random.Generator:
    """The random numbers of a case."""
    return np.random.default_rng([zlib.crc32(target.encode()), seed, number])


def made(target: Target, seed: int, number: int) -> Case:
    """The case with a number, as it would be read from a file."""
    return json.loads(json.dumps(target.make(numbers_of(target.name, seed, number))))


def tried(target: Target, case: Case) -> Outcome:
    """Run a case; warnings are errors, as in the tests."""
    began = time.perf_counter()
    try:
        # Machine code does not warn of infinities; the same kernels, interpreted, would.
        with warnings.catch_warnings(), np.errstate(**({} if COMPILED else {"all": "ignore"})):
            warnings.simplefilter("error")
            target.run(case)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        inside = [frame for frame in frames if "/topwatch/" in frame.filename]
        where = "" if isinstance(error, AssertionError) or not inside else f" in {inside[-1].name}"
        text = "".join(traceback.format_exception(error))
        return Outcome(f"{type(error).__name__}{where}", text, time.perf_counter() - began)
    return Outcome(seconds=time.perf_counter() - began)


def save(folder: Path, target: str, seed: int, number: int, case: Case, outcome: Outcome) -> Path:
    """Write a case that failed, and how; return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target}-{seed}-{number}.json"
    kept = {"target": target, "seed": seed, "number": number, "kind": outcome.kind, "case": case}
    path.write_text(json.dumps(kept, indent=1))
    path.with_suffix(".txt").write_text(outcome.text, errors="backslashreplace")
    return path
