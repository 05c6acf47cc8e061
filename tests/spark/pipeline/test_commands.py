"""``topwatch check`` and ``topwatch explain``: they say what a pipeline does, and start nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.pipelines import EXAMPLE, written
from topwatch.cli.main import cli
from topwatch.query.errors import PipelineError, TopwatchError

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
    described, planned = done.output.splitlines()[:4], done.output.splitlines()[4:]
    assert described == [
        "source: parquet files data/*.parquet",
        "order: by ts, with 5 minutes for rows out of order; rows that cannot be used are counted and kept in bad/",
        "sink: changes to parquet out/, every 10 seconds",
        "checkpoint: ckpt/",
    ]
    assert planned[0] == "3 queries over the last 100,000 rows for each region, evaluated after every row"
    assert [line.partition(":")[0] for line in planned[1:4]] == ["hot", "near", "alarm"]
    assert planned[4:] == [
        "groups: a monitor for each group – no engine serves query 'alarm' in many groups at once",
        "operator: transformWithStateInPandas",
        "pruning: none – rows of other partitions may lie in between",
        "state: at most 100,000 rows (6.4 MB) for each region, in a folder"
        f" – all executors share {tmp_path}/ckpt/segments",
    ]


NO_FOLDER = (
    ", in Spark's state store – no folder that all executors share is given (segments=, or checkpoint in a pipeline)"
)


@pytest.mark.parametrize(
    ("fields", "line", "why"),
    [
        (
            {"window": "latest", "id": "i"},
            "1 query over the latest row of each id of data/*.parquet, changes to the console",
            "48 bytes for each id" + NO_FOLDER,
        ),
        (
            {
                "source": "{kafka: {servers: b, topics: [u, v], schema: 'id INT, t INT, x INT'}}",
                "window": "{last: 1 hour}",
                "time": "t",
                "every": "1 min",
            },
            "1 query over the last 1 hour of Kafka topics u, v, changes to the console",
            "32 bytes for each row of the last 1 hour" + NO_FOLDER,
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
            "the rows that can still be an answer, 24 bytes each, in Spark's state store – it is small",
        ),
    ],
)
def test_other_pipelines_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], line: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yml").write_text(written(**fields))
    assert run("check", "p.yml").output == f"p.yml: fine – {line}\n"
    assert why in run("explain", "p.yml").output


@pytest.mark.parametrize("command", ["check", "explain"])
def test_command_refuses_with_all_problems(command: str) -> None:
    done = run(command, BROKEN / "no-time.yml")
    assert isinstance(done.exception, PipelineError)
    assert len(done.exception.args) == 3


@pytest.mark.parametrize("field", ["checkpoint", "quarantine"])
def test_a_folder_that_only_spark_could_open_is_refused_before_spark_starts(tmp_path: Path, field: str) -> None:
    folders = {"checkpoint": "ckpt", field: "nosuch://lake/folder"}
    (tmp_path / "p.yml").write_text(written(**folders))
    done = run("run", tmp_path / "p.yml")
    message = str(done.exception)
    assert re.fullmatch(rf"{field}: 'nosuch://lake/folder' cannot be opened: .*nosuch.*", message), message
    assert isinstance(done.exception, TopwatchError)


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
