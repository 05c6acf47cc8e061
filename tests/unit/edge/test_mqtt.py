"""Agents and the coordinator as far as they need no broker; ``tests/services/test_mqtt.py`` starts one."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("paho.mqtt", reason="paho-mqtt is missing: install topwatch[edge]")

from topwatch.edge.mqtt.agent import Agent
from topwatch.edge.mqtt.connection import Broker, Topics
from topwatch.edge.mqtt.coordinator import Coordinator
from topwatch.edge.protocol import Server
from topwatch.query.errors import QueryError, TopwatchError

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
