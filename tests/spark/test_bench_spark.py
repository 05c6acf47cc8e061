"""`topwatch bench spark` at the scale for tests: it runs, and what it counts on Spark is what monitors say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.maven_jars import UnavailableError, java


@pytest.mark.slow
def test_streams_are_measured_and_compared(tmp_path: Path) -> None:
    try:
        java()
    except UnavailableError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "topwatch", "bench", "spark", "--scale", "tiny", "--only", "stream"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = json.loads((tmp_path / "spark-tiny.json").read_text())
    assert written["disagreements"] == []
    streams = written["streams"]
    assert {"identity", "pruned", "whole window", "by 5 keys", "by 50 keys", "Spark's max_by"} <= streams.keys()
    assert streams["pruned"]["reported"] == streams["whole window"]["reported"] != []
