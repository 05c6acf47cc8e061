"""Agents and the coordinator as far as they need no broker; ``tests/services/test_mqtt.py`` starts one."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

pytest.importorskip("paho.mqtt", reason="paho-mqtt is missing: install topwatch[edge]")

from topwatch.edge.mqtt.agent import Agent
from topwatch.edge.mqtt.connection import Broker, Topics
from topwatch.edge.mqtt.coordinator import Coordinator
from topwatch.edge.mqtt.last_line import LastLine
from topwatch.edge.mqtt.refusals import Refusals
from topwatch.edge.protocol import Server
from topwatch.query.errors import DataError, QueryError, TopwatchError

PREFER = {"x": "min", "y": "min"}


def test_an_agent_is_a_light_import() -> None:
    heavy = ["numpy", "numba", "pandas", "pyarrow", "pyspark", "polars", "pydantic", "rich"]
    code = f"import sys, topwatch.edge.mqtt.agent, topwatch.cli.main; print([n for n in {heavy!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_what_makes_no_sense_is_refused() -> None:
    for wrong in ({"port": 0}, {"password": "x"}, {"ca": "file"}):
        with pytest.raises(QueryError):
            Broker(**wrong)
    for id in ("", "a/b", "+", "x" * 65):
        with pytest.raises(QueryError, match="id"):
            Agent(id, 2, lambda tick: None, Broker())
    with pytest.raises(QueryError, match="prefix"):
        Topics("a/#")
    with pytest.raises(TopwatchError, match=r"127\.0\.0\.1:9"):
        Coordinator(Server(PREFER), Broker(port=9)).start()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1 2\n\n 3;4 \nx\n", "line 4: expected 2 numbers, got 'x'"),
        ("1 2\n1,,2,3\n", "line 2: expected 2 numbers, got 3 numbers, '1,,2,3'"),
        ("1 2\n" + " " * 5000 + "1 2\n", "line 2: expected at most 4096 characters"),
        ("1 2\n" + "x" * 1000, r"line 2: expected 2 numbers, got 'x{60}\.\.\.'$"),
    ],
)
def test_a_line_that_cannot_be_used_is_an_error(text: str, error: str) -> None:
    last = LastLine(io.StringIO(text), 2)
    with pytest.raises(DataError, match=error):
        last.follow()
    assert last.values in ((1.0, 2.0), (3.0, 4.0))


def test_a_line_that_is_no_text_is_an_error() -> None:
    with pytest.raises(DataError, match="line 1: expected text"):
        LastLine(io.TextIOWrapper(io.BytesIO(b"\xff\xfe 1 2\n"), "utf-8"), 2).follow()


def test_many_refusals_are_few_lines() -> None:
    now = [0.0]
    refusals = Refusals(seconds=60.0, most=20, clock=lambda: now[0])
    for number in range(10_000):
        refusals.add(f"\x1b[2J{number}" + "y" * 100, "unknown")
    assert len(lines := refusals.lines()) == 20
    assert lines[0] == rf"refused '\x1b[2J0{'y' * 59}': unknown"
    now[0] = 60.0
    assert refusals.lines() == ["refused 9980 other messages"]
    assert (refusals.lines(), refusals.total) == ([], 10_000)
    now[0] = 200.0
    refusals.add("a", "unknown")
    assert refusals.lines() == ["refused 'a': unknown"]


def test_a_library_agent_raises_what_ended_it() -> None:
    def follow() -> None:
        raise DataError("line 1: no")

    with pytest.raises(DataError, match="agent 'a': line 1: no"):
        Agent("a", 2, lambda tick: None, Broker(port=9)).run(follow)
    Agent("a", 2, lambda tick: None, Broker(port=9)).run(lambda: None)
