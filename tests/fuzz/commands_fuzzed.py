"""Command lines: whatever is written, an error is a line of ours and exit code 2. Nothing that runs long is called."""

# ruff: noqa: E501 - a table of odd words is read at a glance, a column of them is not

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.calling import call
from tests.fuzz.cases import Case, Target
from tests.fuzz.random_queries import pick

NUMBERS = ["0", "1", "5", "-1", "x", "", "1.5", "1e3", "nan", "inf", "9" * 30, " 7 ", "0x5", "\u0665", "1_0"]
PATHS = [
    "p.yml",
    "none.yml",
    ".",
    "",
    "-",
    "/dev/null",
    "x" * 300,
    "dir",
    "dir/none/x",
    "ü.yml",
    "~",
    "--",
    "\udcff",
]
OUTS = [
    "-",
    "x.csv",
    "x.parquet",
    "x.arrow",
    "x.foo",
    "none/x.csv",
    "",
    ".",
    "p.yml",
    "/dev/full",
    "x" * 300 + ".csv",
    ".csv",
]
PAIRS = ["x=min", "y=max", "x=", "=min", "x", "x=maybe", "", "x=min=max", "a b=max", " = ", "x\n=min"]
WORDS = [
    "",
    "ind",
    "ant",
    "naive",
    "filter",
    "sampling",
    "hybrid",
    "pump-7",
    "a/b",
    "#",
    "+",
    "é" * 40,
    "\udcff",
    "-",
    "luce",
    "nope",
]
# No argument of a program has a null character: the system does not let it through.
LINES = "1,2\nthree\n3 4\n\n1e999 nan\n" + "9" * 5000 + "\n5;6\n"

# Each option with what it takes; a mark stands for one of a table.
TABLES = {"N": NUMBERS, "P": PATHS, "O": OUTS, "=": PAIRS, "W": WORDS, "": [""]}
BROKER = [("--host", ["127.0.0.1", "", "::1", "a b"]), ("--port", ["1", "0", "70000", "x"]), ("--user", "W"), ("--password", "W"),
          ("--tls", ""), ("--ca", "P"), ("--certificate", "P"), ("--key", "P"), ("--prefix", "W")]  # fmt: skip
COMMANDS: list[tuple[list[str], list[Any], list[tuple[str, Any]]]] = [
    (["check"], ["P"], []),
    (["explain"], ["P"], []),
    (["run"], [["none.yml", "bad.yml", "dir", ""]], [("--conf", "="), ("--master", "W"), ("--once", "")]),
    (["generate"], ["W"], [("--rows", "N"), ("--dims", "N"), ("--seed", "N"), ("--out", "O"), ("--force", "")]),
    (["dataset"], ["W"], [("--from", ["none", ""]), ("--out", "P"), ("--set", "="), ("--rows-per-file", "N"), ("--force", ""),
                          ("--list", "")]),
    (["bench", "nope"], [], [("--scale", "W"), ("--only", "W"), ("--seed", "N"), ("--data", "P")]),
    (["edge", "coordinator"], [], [("--prefer", "="), ("--method", "W"), ("--share", "N"), ("--window", "N"), ("--epsilon", "N"),
                                   ("--delta", "N"), ("--seed", "N"), ("--every", "N"), ("--patience", "N"), ("--ticks", ["1", "0", "x"]),
                                   ("--state", "P"), *BROKER]),
    (["edge", "agent"], ["W"], [("--columns", "N"), *BROKER]),
    (["edge"], ["W"], []),
    ([], ["W"], [("--version", ""), ("--help", ""), ("-x", "W")]),
]  # fmt: skip


def make(rng: np.random.Generator) -> Case:
    command, arguments, options = COMMANDS[int(rng.integers(0, len(COMMANDS)))]
    steps = [_value(rng, table) for table in arguments if rng.random() < 0.95]
    for option, table in options:
        often = 0.9 if option in ("--out", "--prefer", "--columns", "--ticks", "--port") else 0.25
        for _ in range(int(rng.random() < often) + int(rng.random() < 0.05)):
            value = _value(rng, table)
            steps += [option] if table == "" else [f"{option}={value}"] if rng.random() < 0.3 else [option, value]
    if "--rows" not in " ".join(steps) and command == ["generate"]:
        steps += ["--rows", "9"]
    if rng.random() < 0.05:
        steps.insert(int(rng.integers(0, len(steps) + 1)), pick(rng, ["--", "-", "--nope", "-h", "--help", "extra"]))
    return {"command": command, "steps": steps}


def _value(rng: np.random.Generator, table: Any) -> str:
    return pick(rng, TABLES[table] if isinstance(table, str) else table)


def run(case: Case) -> None:
    arguments = [*case["command"], *case["steps"]]
    safe = case["command"] == ["edge", "coordinator"]
    if safe:  # nobody listens there, and where somebody did, it would end
        arguments += ["--port", "1", "--ticks", "1"]
    if case["command"] == ["generate"] and not any("--rows" in word for word in arguments):
        arguments += ["--rows", "9"]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, contextlib.chdir(folder):
        Path("p.yml").write_text("source: {rate: }\n")
        Path("bad.yml").write_text("source: {rte: }\n")
        os.mkdir("dir")
        call(arguments, LINES)


TARGET = Target("commands", make, run, short=40)
