"""``topwatch check`` and ``topwatch explain``: they say what a pipeline does, and start nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pipelines import EXAMPLE, written

from topwatch.cli.main import cli
from topwatch.query.errors import PipelineError
from topwatch.spark.pipeline.config import building, read

BROKEN = Path(__file__).with_name("broken")
SCRIPT = Path(sys.executable).with_name("topwatch")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pipeline.yml").write_text(EXAMPLE)
    done = run("check", "pipeline.yml")
    assert done.exit_code == 0
    assert done.output == (
        "pipeline.yml: fine – 3 queries over the last 100,000 rows of data/*.parquet for each region,"
        " changes to parquet out/\n"
    )
    assert os.listdir() == ["pipeline.yml"]


def test_explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yml").write_text(EXAMPLE + "lateness: 5 minutes\nquarantine: bad/\ntrigger: 10 seconds\n")
    done = run("explain", "p.yml")
    assert done.exit_code == 0
    described, planned = done.output.splitlines()[:5], done.output.splitlines()[5:]
    assert described == [
        "source: parquet files data/*.parquet",
        "order: by ts, with 5 minutes for rows out of order; rows that cannot be used are counted and kept in bad/",
        "window: last 100,000 rows for each region, evaluated after every row",
        "state: at most 100,000 rows of 6 numbers and an id (5 MB without ids) for each region, kept in ckpt/",
        "sink: changes to parquet out/, every 10 seconds",
    ]
    assert planned == building.monitor(read("p.yml")).explain().splitlines()
    assert [line.partition(":")[0] for line in planned[1:]] == ["hot", "near", "alarm"]


@pytest.mark.parametrize(
    ("fields", "line", "state"),
    [
        (
            {"window": "latest", "id": "i"},
            "1 query over the latest row of each id of data/*.parquet, changes to the console",
            "at most the latest row of each id, 1 number and an id each, kept until the run ends",
        ),
        (
            {
                "source": "{kafka: {servers: b, topics: [u, v], schema: 'id INT, t INT, x INT'}}",
                "window": "{last: 1 hour}",
                "time": "t",
                "every": "1 min",
            },
            "1 query over the last 1 hour of Kafka topics u, v, changes to the console",
            "at most the last 1 hour of rows, 2 numbers and an id each, kept until the run ends",
        ),
        (
            {
                "source": "{generate: {rows: 5000}}",
                "queries": "[{top: 1, score: {linear: {x1: 1}}}]",
                "sink": "memory",
                "emit": "answers",
            },
            "1 query over the last 100 rows of 5,000 generated rows (ind, 4 columns, seed 0),"
            " answers to memory table topwatch",
            "at most 100 rows of 1 number and an id (800 bytes without ids), kept until the run ends",
        ),
    ],
)
def test_other_pipelines_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], line: str, state: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yml").write_text(written(**fields))
    assert run("check", "p.yml").output == f"p.yml: fine – {line}\n"
    assert f"state: {state}\n" in run("explain", "p.yml").output


@pytest.mark.parametrize("command", ["check", "explain"])
def test_command_refuses_with_all_problems(command: str) -> None:
    done = run(command, BROKEN / "no-time.yml")
    assert isinstance(done.exception, PipelineError)
    assert len(done.exception.args) == 3


def test_installed_command_on_a_broken_file() -> None:
    done = subprocess.run([SCRIPT, "check", "no-time.yml"], cwd=BROKEN, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    expected = (BROKEN / "no-time.txt").read_text().splitlines()
    assert done.stderr.splitlines() == [f"topwatch: {line}" for line in expected]


def test_no_spark_is_imported(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(EXAMPLE)
    code = (
        "import sys, topwatch.spark; from topwatch.cli.main import cli\n"
        "for command in ('check', 'explain'): cli.main([command, 'p.yml'], standalone_mode=False)\n"
        "print(sorted({'pyspark', 'py4j', 'pandas', 'polars'} & sys.modules.keys()))"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True, timeout=60)
    assert printed.splitlines()[-1] == "[]"
