"""What a Python worker is told once: asked of a process of its own, as it cannot be taken back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from topwatch.spark.node.worker_tuning import LARGEST, SPARE
from topwatch.spark.pipeline.runner import MEMORY, on_one_machine

ASKED = """
import gc
import pyarrow as pa
from topwatch.spark.node.worker_tuning import tune_worker

frozen = []
for _ in range(9):
    tune_worker()
    frozen.append(gc.get_freeze_count())
print(pa.default_memory_pool().backend_name, *frozen)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' memory is left alone")
def test_loaded_code_is_frozen_and_memory_kept() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    backend, *frozen = done.stdout.split()
    counts = [int(count) for count in frozen]
    assert backend == "system"
    assert counts[0] == 0, "before the first task, nothing has been loaded"
    assert counts[1] > 1000
    changed = [task for task in range(1, 9) if counts[task] != counts[task - 1]]
    assert set(changed) <= {1, 2, 4, 8}, "seldom: what is frozen is never collected"


def test_java_is_told_the_same_unless_the_user_has_said_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other, *_ = MEMORY
    monkeypatch.setenv(mine, "1")
    monkeypatch.delenv(other, raising=False)
    on_one_machine()
    assert (os.environ[mine], os.environ[other]) == ("1", MEMORY[other])
    if sys.platform == "linux":  # it leaves out a number that is too large without a word; here it would say so
        code = f"import ctypes; tell = ctypes.CDLL(None).mallopt; print(tell(-1, {SPARE}), tell(-3, {LARGEST}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["1", "1"]
