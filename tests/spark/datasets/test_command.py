"""``topwatch dataset``: the list, what is refused before anything starts, and a run under ``spark-submit``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import topwatch as tw
from tests.support import ROOT
from tests.support.dataset_samples import COVTYPE, FLIGHTS, REQUESTS, got, luce, put
from topwatch.cli.main import cli
from topwatch.spark.datasets import DATASETS, prepare
from topwatch.spark.datasets.catalogue import MEASUREMENTS
from topwatch.spark.pipeline.config import reading


def test_the_pipeline_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "data-sets-as-streams.md").read_text()
    (tmp_path / "luce.yml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    read = reading.read(tmp_path / "luce.yml")
    assert {name for query in read.standing_queries() for name in query.score.columns} <= set(MEASUREMENTS)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, ["dataset", *map(str, arguments)])


def test_the_list() -> None:
    lines = run("--list").output.splitlines()
    assert [line.split()[0] for line in lines] == list(DATASETS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "luke --from from --out new",
            "dataset: accepted are covtype, kddcup99, luce, nycflights13, worldcup98, got",
        ),
        ("luke --from from --out new", "; did you mean 'luce'?"),
        ("covtype --from from --out new", "from: there is no file 'from/covtype.parquet'"),
        (
            "luce --from from --out new --set percnt=9",
            "luce: unknown option 'percnt'; accepted are percent",
        ),
        ("covtype --from from --out new --set percent=9", "covtype: unknown option 'percent'; it has none"),
        ("luce --from from --out a/b", "out: there is no folder"),
        ("luce --from from --out made", "exists already; --force replaces it"),
        ("luce --from from --out mine --force", "exists and is no data set of ours; accepted is a new or empty folder"),
        ("luce --from from", "needed are NAME, --from and --out"),
        ("luce --from from --out new --set percent", "--set: expected NAME=VALUE, got 'percent'"),
    ],
)
def test_what_makes_no_sense_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "from", "luce", luce(10, np.random.default_rng(0)))
    for name, content in (("mine", "letter.txt"), ("made", "_about.json")):
        Path(name).mkdir()
        Path(name, content).write_text("{}")
    done = run(*arguments.split())
    reported = str(done.exception) if isinstance(done.exception, tw.TopwatchError) else done.output
    assert message in reported
    assert sorted(os.listdir()) == ["from", "made", "mine"]
    assert Path("mine/letter.txt").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "worldcup98",
            {"shape": "snapshot"},
            "shape: expected 'requests' or 'snapshots', got 'snapshot'",
        ),
        (
            "worldcup98",
            {"shape": "snapshots", "over": "45 s"},
            "over: expected a multiple of every, '30 s', got",
        ),
        ("nycflights13", {"every": "1 hour", "combine": "mean"}, "combine: expected 'sum' or 'max', got 'mean'"),
        ("nycflights13", {"every": "1 huor"}, "every: unknown unit 'huor'"),
    ],
)
def test_options_that_make_no_sense(
    spark: SparkSession, tmp_path: Path, name: str, options: dict[str, str], message: str
) -> None:
    source = put(tmp_path / "from", name, FLIGHTS if name == "nycflights13" else REQUESTS)
    with pytest.raises(tw.QueryError) as raised:
        prepare(spark, name, source, tmp_path / "out", **options)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_the_command_under_spark_submit(tmp_path: Path) -> None:
    """The whole way once: Spark's own script starts the package, and the settings given to it hold."""
    import topwatch.__main__ as entry

    source = put(tmp_path / "from", "covtype", pa.table(COVTYPE))
    (tmp_path / "log").mkdir()
    logged = ["spark.eventLog.enabled=true", f"spark.eventLog.dir=file://{tmp_path / 'log'}"]
    plain = ["spark.eventLog.compress=false", "spark.eventLog.rolling.enabled=false"]
    settings = [*logged, *plain, "spark.sql.shuffle.partitions=3"]
    command = [Path(sys.executable).with_name("spark-submit"), "--master", "local[1]"]
    command += [part for setting in settings for part in ("--conf", setting)]
    command += [entry.__file__, "dataset", "covtype", "--from", source, "--out", tmp_path / "out"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "covtype: 6 rows in, 6 rows out in 1 file of up to 10,000 rows" in done.stdout
    assert len(got(tmp_path / "out")["id"]) == 6
    (log,) = (tmp_path / "log").iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (held,) = [event["Spark Properties"] for event in events if event["Event"] == "SparkListenerEnvironmentUpdate"]
    assert held["spark.master"] == "local[1]"
    assert held["spark.sql.shuffle.partitions"] == "3"
    assert held["spark.app.name"] == "topwatch"
