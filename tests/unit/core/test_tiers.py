"""Kernels that are interpreted until another process has compiled them: the same answers, whenever that is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.sizes import COMPILED
from tests.support.tiers import alternating
from topwatch.algorithms.registry import algorithms
from topwatch.core import background_compiler, schedule
from topwatch.testing import check_algorithm

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing is compiled")

START = """
import numpy as np, topwatch as tw, time, sys
from topwatch.core.background_compiler import compiler
rng = np.random.default_rng(3)
front = tw.Skyline(prefer={"x": "min", "y": "max"}, name="front")
monitor, reference = (tw.Monitor(front, tw.last(200), algorithm=name, id=None) for name in ("auto", "brute"))
def push(rows=50):
    batch = {"x": rng.random(rows), "y": rng.random(rows)}
    assert list(monitor.push(batch)) == list(reference.push(batch))
"""


def environment(cache: Path) -> dict[str, str]:
    result = dict(os.environ, TOPWATCH_CACHE_DIR=str(cache))
    del result["TOPWATCH_COMPILE"]
    return result


def run(script: str, cache: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START + script]
    done = subprocess.run(command, env=environment(cache), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done


def entries(cache: Path) -> list[Path]:
    return list(cache.rglob("*.kernel"))


def workers(of: int) -> list[int]:
    """Return the compiling processes whose parent is, or was, a process."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if b"compile_worker" in command and parent == of:
            pids.append(int(folder.name))
    return pids


def test_a_small_job_compiles_nothing(tmp_path: Path) -> None:
    done = run("push()\nprint(len(monitor.answer()))", tmp_path)
    assert int(done.stdout) > 0
    assert done.stderr == ""
    assert entries(tmp_path) == []


def test_compiled_kernels_take_over(tmp_path: Path) -> None:
    script = """
background = []
from topwatch.algorithms.skyline.kernels.fifo_loop import drive_unbeaten
end = time.monotonic() + 200
while not drive_unbeaten.overloads:
    assert time.monotonic() < end
    push(100)
    background.append(compiler.progress())
for _ in range(20):
    push()
seen = [one for one in background if one is not None]
assert seen and all(0 <= one.done <= one.total for one in seen), background
print(seen[-1])
"""
    done = run(script, tmp_path)
    assert "kernels compiled" in done.stdout
    assert done.stderr.count("compiling kernels") == 1
    assert entries(tmp_path)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    script = "compiler.spend(1.0)\npush()\nprint('begun', flush=True)\ntime.sleep(600)"
    program = subprocess.Popen(
        [sys.executable, "-c", START + script], env=environment(tmp_path), stdout=subprocess.PIPE, text=True
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        pids = workers(program.pid)
        assert 1 <= len(pids) <= background_compiler.PROCESSES
        program.send_signal(signal.SIGKILL)
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, pids
        time.sleep(0.1)
    assert not [path for path in entries(tmp_path) if path.stat().st_size == 0]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_a_killed_process_is_done_without(tmp_path: Path) -> None:
    script = """
import os, signal
from topwatch.algorithms.skyline.kernels.fifo_loop import drive_unbeaten
compiler.spend(1.0)
push()
for worker in compiler._workers:
    worker._process.kill()
    worker._process.wait()
push()
push()
assert drive_unbeaten.overloads, "compiled here"
"""
    done = run(script, tmp_path)
    assert "could not be compiled in the background" in done.stderr


def test_a_forked_process_has_its_own(tmp_path: Path) -> None:
    script = """
import os
compiler.spend(1.0)
push()
assert compiler._workers
if os.fork() == 0:
    assert not compiler._workers
    push()
    os._exit(0)
assert os.wait()[1] == 0
push()
"""
    run(script, tmp_path)


ALIKE = ("ra", "sasf", "sapf", "rasf", "rarf", "cpm", "snn", "eva")  # others have their kernels


@pytest.mark.parametrize("algorithm", [n for n, entry in algorithms().items() if entry.exact and n not in ALIKE])
def test_interpreted_and_compiled_code_alternate(algorithm: str, rng: np.random.Generator) -> None:
    check_algorithm(algorithm, rows=40, window=10)  # loads the modules that have to be changed
    with alternating(rng) as counts:
        check_algorithm(algorithm, seed=int(rng.integers(2**31)), rows=100, window=20)
    assert min(counts) > 0 or algorithm == "brute"


def test_pieces_are_small_while_kernels_are_interpreted() -> None:
    one, other = schedule.Pace(), schedule.Pace()
    assert one.next(10**6) == schedule.FIRST
    schedule.spend(0.01)
    assert one.next(10**6) == 2 * schedule.FIRST
    schedule.spend(1.0)
    assert one.next(10**6) == 2
    schedule.spend(100.0)
    assert one.next(10**6) == 1
    assert one.next(10**6) == schedule.PIECE
    assert one.next(5) == schedule.piece_rows() == 5
    other.next(7)
    schedule.spend(1.0)
    assert one.next(10**6) == schedule.PIECE, "time counts for the stream whose piece it was spent on"
    one.restart(exact=True)
    assert one.next(10**6) == schedule.FIRST
    one.restart(exact=False)
    for _ in range(2):
        assert one.next(10**6) == schedule.PIECE, "approximate answers do not depend on time"
        schedule.spend(100.0)
