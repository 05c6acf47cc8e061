"""The demo through the console script: in a pipe, on a terminal, interrupted, and with options that make no sense."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.sizes import COMPILED
from tests.support.terminals import ENTER_SCREEN, LEAVE_SCREEN, SHOW_CURSOR, on_a_terminal

SCRIPT = Path(sys.executable).with_name("topwatch")
NAMES = ["weighted", "all-round", "contrast", "mid-range", "balanced", "squares", "ratio", "centre", "spot", "alarm"]
LONG = 120  # seconds; kernels may have to be compiled first


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, "demo", *map(str, arguments)], capture_output=True, text=True, timeout=LONG, check=False
    )


@contextmanager
def started(*arguments: object, cache: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    environment = dict(os.environ) | ({"TOPWATCH_CACHE_DIR": str(cache)} if cache else {})
    command = [SCRIPT, "demo", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"the demo ended without {words!r}")


def answers(output: str) -> list[str]:
    """The lines of a summary that say what each query's answer is, without the algorithm."""
    lines = [line.split(maxsplit=2) for line in output.splitlines() if line.startswith("  ") and "rows/s" not in line]
    assert [name for name, _, _ in lines] == NAMES
    return [answer for _, _, answer in lines]


def test_in_a_pipe_it_is_a_line_a_second() -> None:
    done = run("--seconds", 2)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.isascii()
    assert done.stdout.startswith("demo: ")
    assert done.stdout.count(" rows/s ") >= 2
    assert " changes, " in done.stdout
    assert len(answers(done.stdout)) == 10


@pytest.mark.parametrize("kind", ["ind", "ant", "cor", "clustered"])
def test_rows_are_counted_to_the_last_one(kind: str) -> None:
    done = run("--rows", 70_001, "--kind", kind, "--seed", 3)
    assert done.returncode == 0, done.stderr
    assert "70,001 rows in " in done.stdout
    assert "none" not in "".join(answers(done.stdout)), "a query that never has an answer shows nothing"


def test_the_answers_do_not_depend_on_the_algorithm_or_the_pace() -> None:
    options = ("--rows", 3000, "--window", 700, "--seed", 5)
    expected = answers(run(*options, "--algorithm", "brute").stdout)
    assert answers(run(*options).stdout) == expected
    assert answers(run(*options, "--rate", 2000).stdout) == expected


def test_an_interrupt_ends_it_with_a_summary() -> None:
    with started() as process:
        read_until(process, " rows/s ")
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=LONG)
    assert process.returncode == 0
    assert error == ""
    assert " changes, " in output
    assert len(answers(output)) == 10


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_an_interrupt_while_kernels_compile_is_no_crash(tmp_path: Path) -> None:
    with started(cache=tmp_path) as process:
        read_until(process, "compiling kernels")
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=LONG)
    assert process.returncode == 0
    assert error == ""
    assert output == "stopped before the first rows\n", "the title and the notice were read before"


def test_a_reader_that_leaves_is_no_crash() -> None:
    with started("--seconds", 30) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        read_until(process, " rows/s ")
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 10)])
def test_on_a_terminal_it_fills_the_screen_and_leaves_it_clean(width: int, height: int) -> None:
    code, output = on_a_terminal([SCRIPT, "demo", "--seconds", 2], width, height, LONG)
    assert code == 0, output
    assert output.count(ENTER_SCREEN) == output.count(LEAVE_SCREEN) == 1
    _, shown = output.split(ENTER_SCREEN)
    shown, after = shown.split(LEAVE_SCREEN)
    assert "rows/s" in shown
    assert " rows in " in after
    if width >= 80:
        assert all(name in shown for name in NAMES)
        assert all(name in after for name in NAMES)
    assert SHOW_CURSOR in output[output.rindex(ENTER_SCREEN) :]
    assert "Traceback" not in output


def test_control_c_on_a_terminal_ends_it_with_a_summary() -> None:
    code, output = on_a_terminal([SCRIPT, "demo"], 80, 24, LONG, keys="\x03", when="enters")
    assert code == 0, output
    assert " rows in " in output.split(LEAVE_SCREEN)[-1]
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kind", "foo"), "'foo' is not one of 'ind', 'ant', 'cor', 'clustered'"),
        (("--rows", 0), "'--rows': 0 is not in the range x>=1"),
        (("--seconds", 0), "'--seconds'"),
        (("--seconds", "soon"), "'--seconds': 'soon' is not a valid float"),
        (("--rate", 0), "'--rate'"),
        (("--window", 0), "'--window'"),
        (("--seed", -1), "'--seed'"),
        (("--algorithm", "smaa"), "unknown name 'smaa'; accepted are auto, "),
        (("--row", 5), "No such option"),
    ],
)
def test_bad_options_are_one_line(arguments: tuple[object, ...], words: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("topwatch: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
