"""``topwatch run`` as a user runs it: a process of its own, a file, a folder of rows."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import topwatch as tw
from tests.support import ROOT, sink_files
from tests.support.servers.maven_jars import UnavailableError, java
from tests.support.terminals import ENTER_SCREEN, LEAVE_SCREEN, SHOW_CURSOR, on_a_terminal
from topwatch.spark.state.manifest import OTHERS

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


COMMAND = [sys.executable, "-m", "topwatch"]


def start(*arguments: Any, **environment: str) -> subprocess.Popen[str]:
    command = [*COMMAND, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **environment})


def run(*arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder for temporary files, and see that it leaves Spark's log there only when it fails."""
    with tempfile.TemporaryDirectory() as temporary:
        process = start(*arguments, TMPDIR=temporary, **environment)
        out, err = process.communicate(timeout=300)
        logs = [str(path) for path in Path(temporary).glob("topwatch-spark-*.log")]
    assert all(path in err for path in logs)
    assert len(logs) == ("Spark's own log is" in err)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def write(folder: Path, number: int, rows: list[dict[str, Any]], more: str = "") -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + more)
    os.utime(path, (1_000_000_000 + number,) * 2)


COLD = """
source: {{files: {{path: in/*.parquet, options: {{maxFilesPerTrigger: 1}}}}}}
id: flow
{by}window: {{last: 500}}
queries:
  - {{name: hot, top: 3, score: {{linear: {{bytes: 0.7, packets: 0.3}}}}}}
sink: {{parquet: out/}}
checkpoint: ckpt/
"""


@pytest.mark.parametrize("by", ["", "by: region\n"], ids=["pruned", "by"])
def test_an_empty_kernel_cache(by: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """Kernels are interpreted, and then compiled, in Python workers that come and go: the changes of a monitor."""
    columns = {"bytes": rng.random(30_000), "packets": rng.random(30_000), "region": rng.integers(0, 9, 30_000)}
    table = pa.table({"flow": np.arange(30_000), **columns})
    (tmp_path / "in").mkdir()
    for number in range(3):
        path = tmp_path / f"in/{number}.parquet"
        pq.write_table(table.slice(10_000 * number, 10_000), path)
        os.utime(path, (1_000_000_000 + number,) * 2)
    (tmp_path / "pipeline.yml").write_text(COLD.format(by=by))
    cold = {"TOPWATCH_CACHE_DIR": str(tmp_path / "cache"), "TOPWATCH_COMPILE": "background"}
    done = run("run", tmp_path / "pipeline.yml", "--once", **cold)
    assert done.returncode == 0, done.stderr
    hot = tw.TopK(k=3, score=tw.linear(bytes=0.7, packets=0.3), name="hot")
    expected = tw.Monitor(hot, tw.last(500), id="flow", by="region" if by else None).push(table).to_arrow().to_pylist()
    result = pa.concat_tables([pq.read_table(path) for path in sink_files.named(tmp_path / "out")]).to_pylist()
    assert Counter(tuple(line.values()) for line in result) == Counter(tuple(line.values()) for line in expected)


def test_a_second_run_goes_on_where_the_first_stopped(tmp_path: Path, rng: np.random.Generator) -> None:
    rows = [
        {"flow": f"f{i}", "bytes": float(rng.integers(0, 1000)), "packets": float(rng.integers(0, 9))}
        for i in range(400)
    ]
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    write(tmp_path / "in", 1, rows[:200], more='{"flow": "x", "bytes": "many"}\nno JSON at all\n')
    first = run("run", tmp_path / "pipeline.yml", "--once")
    assert first.returncode == 0, first.stderr
    assert "batch 0: 202 rows in " in first.stdout
    assert re.search(r"rows/s.*, refused 2$", first.stdout, re.MULTILINE), first.stdout
    assert "\n202 rows in 1 micro-batch, " in first.stdout
    write(tmp_path / "in", 2, [*rows[200:], {"flow": None, "bytes": 1.0, "packets": 1.0}])
    second = run("run", tmp_path / "pipeline.yml", "--once")
    assert second.returncode == 0, second.stderr

    result = pq.ParquetDataset(sorted((tmp_path / "out").glob("*.parquet"))).read()
    monitor = tw.Monitor(
        tw.TopK(k=3, score=tw.linear(bytes=0.7, packets=0.3), name="hot"), tw.last(50), algorithm="brute", id="flow"
    )
    wanted = monitor.push({name: [row[name] for row in rows] for name in ("flow", "bytes", "packets")})
    lines = zip(*(result.column(name).to_pylist() for name in ("at", "query", "op", "id", "score")), strict=True)
    assert sorted(lines) == sorted(tuple(change) for change in wanted)
    reasons = [
        reason
        for path in (tmp_path / "bad").rglob("*.parquet")
        for reason in pq.read_table(path).column("reason").to_pylist()
    ]
    assert sorted(reasons) == ["column 'bytes': expected double, got 'many'", "id is null", "unparsable JSON"]


def test_another_list_of_queries_is_refused_also_where_no_rows_are_new(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    write(tmp_path / "in", 1, [{"flow": f"f{i}", "bytes": float(i), "packets": 1.0} for i in range(20)])
    first = run("run", tmp_path / "pipeline.yml", "--once")
    assert first.returncode == 0, first.stderr
    changed = PIPELINE.replace("top: 3", "top: 4")
    (tmp_path / "pipeline.yml").write_text(changed)
    second = run("run", tmp_path / "pipeline.yml", "--once")
    assert second.returncode == 2
    assert second.stderr == f"topwatch: {OTHERS}\n"
    assert "starting Spark" not in second.stdout
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    third = run("run", tmp_path / "pipeline.yml", "--once")
    assert third.returncode == 0, third.stderr


GENERATED = """
source: {generate: {kind: ind, dims: 2, rows_per_batch: 1000}}
window: {last: 50}
queries:
  - {name: hot, top: 3, score: {linear: {x1: 0.7, x2: 0.3}}}
"""


def test_rows_for_the_console_go_there_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(GENERATED + "sink: console\n")
    process = start("run", tmp_path / "pipeline.yml")
    deadline = time.monotonic() + 200
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or " batch 1: 1,000 rows in " not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], process.communicate()
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == "topwatch: interrupted"
    header, *rows = [[field.strip() for field in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert header == ["at", "query", "op", "id", "score"]
    assert rows[0][:4] == ["1", "hot", "enter", "1"]


def test_on_a_terminal_it_fills_the_screen_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(GENERATED + "sink: {parquet: out/}\ncheckpoint: ckpt/\n")
    command = [*COMMAND, "run", tmp_path / "pipeline.yml"]
    code, output = on_a_terminal(command, 80, 24, 200, keys="\x03", when="micro-batch ")
    assert code == 130, output
    assert output.count(ENTER_SCREEN) == output.count(LEAVE_SCREEN) == 1
    _, shown = output.split(ENTER_SCREEN)
    shown, after = shown.split(LEAVE_SCREEN)
    words = ["starting Spark", "reading the first rows", "mean rows/s", "batch time", "stopping", "Ctrl-C stops"]
    assert [word for word in words if word not in shown] == []
    assert SHOW_CURSOR in output
    assert " rows/s in the mean" in after
    assert after.rstrip().endswith("topwatch: interrupted")
    assert "Traceback" not in output


def test_the_demo_ends_by_itself_on_a_narrow_terminal(tmp_path: Path) -> None:
    demo = ROOT / "examples" / "demo.yml"
    text = demo.read_text(encoding="utf-8")
    short = text.replace("rows: 2500000, rows_per_batch: 100000", "rows: 30000, rows_per_batch: 10000")
    assert short != text
    (tmp_path / "demo.yml").write_text(short, encoding="utf-8")
    code, output = on_a_terminal([*COMMAND, "run", tmp_path / "demo.yml", "--once"], 60, 16, 200)
    assert code == 0, output
    assert "mean rows/s" in output
    assert "30,000 rows in 3 micro-batches, " in output.split(LEAVE_SCREEN)[-1]
    assert "Traceback" not in output
    changes = pq.ParquetDataset(sorted((tmp_path / "demo" / "changes").glob("*.parquet"))).read()
    names = {query["name"] for query in yaml.safe_load(text)["queries"]}
    assert set(changes.column("query").to_pylist()) == names - {"alarm"}, "the attack comes later"


def test_without_java_it_says_so_and_names_the_log(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(GENERATED + "sink: memory")
    done = run("run", tmp_path / "pipeline.yml", JAVA_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("topwatch: run: Spark did not start: ")
    assert f"{tmp_path}/bin/java" in done.stderr
    assert "; it needs Java 17 or newer; Spark's own log is" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_setting_without_a_value(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    done = run("run", tmp_path / "pipeline.yml", "--conf", "spark.x")
    assert done.returncode == 2
    assert "--conf: expected NAME=VALUE, got 'spark.x'" in done.stderr
