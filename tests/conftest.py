"""Seeds that are printed and can be given again, sizes that fit the machine code or the bare interpreter, and Spark."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest

from tests.support.sizes import COMPILED, SCALE, Scale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_AND_JARS = pytest.StashKey[str]()

hypothesis.settings.register_profile(
    "topwatch",
    deadline=None,
    print_blob=True,
    derandomize="CI" in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.load_profile("topwatch")


def pytest_addoption(parser: pytest.Parser) -> None:
    # A change is evaluated by the same streams each time; on a developer's machine they are new ones with every run.
    fresh = "2006" if "CI" in os.environ else str(time.time_ns() % 2**32)
    default = os.environ.get("TOPWATCH_SEED", fresh)
    parser.addoption("--seed", type=int, default=int(default), help="seed of the random tests (or TOPWATCH_SEED)")


def pytest_report_header(config: pytest.Config) -> str:
    return f"topwatch: --seed={config.getoption('--seed')}, kernels {'compiled' if COMPILED else 'interpreted'}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    # Which connector was tried matters: it may be older than Spark where no repository has the same version.
    if SPARK_AND_JARS in config.stash:
        terminalreporter.write_line(config.stash[SPARK_AND_JARS])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("seed", f"run again with --seed={item.config.getoption('--seed')}"))
    return report


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the seed and on the test, not on which tests ran before."""
    return np.random.default_rng([request.config.getoption("--seed"), zlib.crc32(request.node.nodeid.encode())])


@pytest.fixture(scope="session")
def scale() -> Scale:
    return SCALE


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from tests.support import spark_session  # loads PySpark, which most tests do without
    from tests.support.servers.maven_jars import UnavailableError, java

    try:
        java()
    except UnavailableError as error:
        pytest.skip(str(error))
    with spark_session.started(tmp_path_factory.mktemp("spark")) as (session, described):
        request.config.stash[SPARK_AND_JARS] = described
        yield session


@pytest.fixture(autouse=True)
def _quiet_interpreter() -> Generator[None]:
    """Machine code does not warn of infinities and wrapped hashes; the same kernels, interpreted, would."""
    with np.errstate(**({} if COMPILED else {"all": "ignore"})):
        yield
