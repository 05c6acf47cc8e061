"""Everything passes with what is optional switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WATCHED = "streaming_and_static or restart or whole_answers or out_of_order or cannot_be_read"


@pytest.mark.slow
@pytest.mark.parametrize(
    "suite", [["tests/spark/operator", "tests/spark/state"], ["tests/spark/test_watch.py", "-k", WATCHED]]
)
def test_a_good_part_of_the_suite(suite: list[str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *suite]
    environment = {**os.environ, "TOPWATCH_NODE_OFF": "all"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
