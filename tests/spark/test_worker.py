"""What a Python worker is told once: asked of a process of its own, as it cannot be taken back."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = """
import gc
import pyarrow as pa
from topwatch.spark.worker import settle

frozen = []
for _ in range(9):
    settle()
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
