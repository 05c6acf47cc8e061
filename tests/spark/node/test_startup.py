"""Spark's Python processes start quickly: they load little, and both stages of a stream share them."""

from __future__ import annotations

import subprocess
import sys

from topwatch.spark.session import SETTINGS


def test_both_stages_of_a_stream_run_in_the_same_processes() -> None:
    """Spark has one pool of processes for each environment, and adds this itself for the first stage."""
    assert SETTINGS["spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK"] == "1"


def test_what_spark_loads_first_loads_little() -> None:
    """Spark waits ten seconds for the process that declares the state."""
    for module, needless in {"processor": {"numba", "pyarrow"}, "partition_writer": {"numba"}}.items():
        code = f"import sys, topwatch.spark.operator.{module}; print({needless} & set(sys.modules))"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"set()\n"
