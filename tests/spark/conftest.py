"""The order of the tests on Spark, and how each of their JVMs starts."""

from __future__ import annotations

import os

import pytest

from tests.support.crashes.processes import LIGHT_JAVA

os.environ.setdefault("SPARK_SUBMIT_OPTS", LIGHT_JAVA)
LONGEST = ("test_kills", "test_hosts", "test_run", "test_bench_spark")  # first: no process shall end alone with one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)
