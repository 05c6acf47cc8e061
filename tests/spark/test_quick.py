"""Spark's Python processes start quickly: PySpark is not compiled again, and both steps of a stream share them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import topwatch as tw
from topwatch.spark.node import warm_up
from topwatch.spark.pipeline.runner import QUICK

HOME = Path(pyspark.__file__).parent
ZIPPED = [str(path) for path in (HOME / "python" / "lib").glob("*.zip")]


def seen(code: str, *path: str, home: str = str(HOME)) -> str:
    """Return what a process prints that was started as Spark starts it."""
    there = os.pathsep.join([*ZIPPED, *path])
    env = {**os.environ, "SPARK_HOME": home, "PYTHONPATH": there}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


def test_what_pip_has_compiled_comes_before_the_zip_file() -> None:
    where = "import pyspark; print(pyspark.__file__)"
    assert ".zip" in seen(where)
    assert seen(where, QUICK).strip() == str(HOME / "__init__.py")


def test_another_spark_keeps_its_own_code(tmp_path: Path) -> None:
    assert ".zip" in seen("import pyspark; print(pyspark.__file__)", QUICK, home=str(tmp_path))


def test_a_file_of_that_name_that_was_there_before_is_run_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    assert seen("import pyspark; print(pyspark.__file__)", QUICK, str(tmp_path)).split() == [
        "mine",
        str(HOME / "__init__.py"),
    ]


def test_both_steps_of_a_stream_run_in_the_same_processes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("value AS id", "CAST(value AS double) AS x")
    monkeypatch.delitem(spark.sparkContext.environment, "SPARK_SIMPLIFIED_TRACEBACK", raising=False)
    tw.spark.watch(rows, tw.TopK(k=1, score=tw.linear(x=1.0)), tw.last(10), segments=str(tmp_path))
    # Spark has one pool of processes for each environment, and adds this itself for the first step.
    assert spark.sparkContext.environment["SPARK_SIMPLIFIED_TRACEBACK"] == "1"


def test_the_process_that_all_workers_are_copied_from_has_loaded_the_kernels_but_not_arrow() -> None:
    code = "import sys; print('numba' in sys.modules, 'pyarrow' in sys.modules)"
    assert seen(code, QUICK).split() == ["False", "False"]
    env = {**os.environ, "SPARK_HOME": str(HOME), "PYTHONPATH": os.pathsep.join([*ZIPPED, QUICK])}
    command = [sys.executable, "-c", code, "pyspark.daemon"]  # Spark's own words have this in them
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split() == [
        "True",
        "False",
    ]


def test_workers_have_loaded_their_code_before_a_stream_needs_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = spark.sparkContext
    # With a variable of its own this test gets processes of its own: those that other tests left have loaded it or not.
    monkeypatch.setitem(context.environment, "TOPWATCH_TEST", "warming")
    loaded = context.parallelize([0], 1).map(lambda _: "topwatch.spark.operator.stateful" in sys.modules)
    assert loaded.collect() == [False]
    warm_up._run(context)
    assert loaded.collect() == [True]


def test_workers_load_their_code_once_in_an_application(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[object] = []
    monkeypatch.setattr(warm_up, "_warmed", set())
    monkeypatch.setattr(warm_up, "_run", ran.append)
    rows = spark.readStream.format("rate").load().selectExpr("value AS id", "CAST(value AS double) AS x")
    for name in "ab":
        tw.spark.watch(rows, tw.TopK(k=1, score=tw.linear(x=1.0)), tw.last(10), segments=str(tmp_path / name))
    assert len(ran) == 1
