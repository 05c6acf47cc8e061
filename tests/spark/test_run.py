"""``topwatch run`` as a user runs it: a process of its own, a file, a folder of rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from maven_jars import UnavailableError, java

import topwatch as tw

PIPELINE = """
source: {files: {path: in/*.json, schema: "flow STRING, bytes DOUBLE, packets DOUBLE"}}
id: flow
window: {last: 50}
queries:
  - {name: hot, top: 3, score: {linear: {bytes: 0.7, packets: 0.3}}}
sink: {parquet: out/}
checkpoint: ckpt/
quarantine: bad/
"""


@pytest.fixture(autouse=True)
def _java() -> None:
    try:
        java()
    except UnavailableError as error:
        pytest.skip(str(error))


def start(*arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "topwatch.cli", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    process = start(*arguments)
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def write(folder: Path, number: int, rows: list[dict[str, Any]], more: str = "") -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + more)
    os.utime(path, (1_000_000_000 + number,) * 2)


def test_a_second_run_goes_on_where_the_first_stopped(tmp_path: Path, rng: np.random.Generator) -> None:
    rows = [
        {"flow": f"f{i}", "bytes": float(rng.integers(0, 1000)), "packets": float(rng.integers(0, 9))}
        for i in range(400)
    ]
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    write(tmp_path / "in", 1, rows[:200], more='{"flow": "x", "bytes": "many"}\nno JSON at all\n')
    first = run("run", tmp_path / "pipeline.yml", "--once")
    assert first.returncode == 0, first.stderr
    assert "batch 0: 202 rows" in first.stdout
    write(tmp_path / "in", 2, [*rows[200:], {"flow": None, "bytes": 1.0, "packets": 1.0}])
    second = run("run", tmp_path / "pipeline.yml", "--once")
    assert second.returncode == 0, second.stderr

    found = pq.ParquetDataset(sorted((tmp_path / "out").glob("*.parquet"))).read()
    monitor = tw.Monitor(
        tw.TopK(k=3, score=tw.linear(bytes=0.7, packets=0.3), name="hot"), tw.last(50), algorithm="brute", id="flow"
    )
    wanted = monitor.push({name: [row[name] for row in rows] for name in ("flow", "bytes", "packets")})
    lines = zip(*(found.column(name).to_pylist() for name in ("at", "query", "op", "id", "score")), strict=True)
    assert sorted(lines) == sorted(tuple(change) for change in wanted)
    reasons = [
        reason
        for path in (tmp_path / "bad").rglob("*.parquet")
        for reason in pq.read_table(path).column("reason").to_pylist()
    ]
    assert sorted(reasons) == ["column 'bytes': expected double, got 'many'", "id is null", "unparsable JSON"]


def test_ctrl_c_stops_it_cleanly(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(
        PIPELINE.replace(
            'files: {path: in/*.json, schema: "flow STRING, bytes DOUBLE, packets DOUBLE"}',
            "generate: {kind: ind, dims: 2, rows_per_batch: 1000}",
        )
        .replace("id: flow", "id: id")
        .replace("{bytes: 0.7, packets: 0.3}", "{x1: 0.7, x2: 0.3}")
    )
    process = start("run", tmp_path / "pipeline.yml")
    deadline = time.monotonic() + 200
    assert process.stdout is not None
    while "batch 1:" not in (line := process.stdout.readline()):
        assert line, process.communicate()
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.rstrip().endswith("topwatch: interrupted")


def test_a_setting_without_a_value(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    done = run("run", tmp_path / "pipeline.yml", "--conf", "spark.x")
    assert done.returncode == 2
    assert "--conf: expected NAME=VALUE, got 'spark.x'" in done.stderr
