"""Seeds that are printed and can be given again, and sizes that fit the machine code or the bare interpreter."""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Generator
from pathlib import Path

import hypothesis
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the tests share modules: oracle, streams, lockstep

from sizes import COMPILED, SCALE, Scale

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


@pytest.fixture(autouse=True)
def _quiet_interpreter() -> Generator[None]:
    """Machine code does not warn of infinities and wrapped hashes; the same kernels, interpreted, would."""
    with np.errstate(**({} if COMPILED else {"all": "ignore"})):
        yield
