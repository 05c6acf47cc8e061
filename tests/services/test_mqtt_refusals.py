"""What agents and the coordinator say of refused rows, and the coordinator's status, over a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.mqtt_checks import PATIENCE, PREFER, assert_status, retained, until
from tests.support.servers.maven_jars import UnavailableError
from tests.support.servers.mosquitto import mosquitto

pytest.importorskip("paho.mqtt", reason="paho-mqtt is missing: install topwatch[edge]")

from topwatch.edge.mqtt.agent import Agent
from topwatch.edge.mqtt.connection import Broker, Connection, Publication, Topics
from topwatch.edge.mqtt.coordinator import Coordinator
from topwatch.edge.protocol import Server
from topwatch.edge.protocol.messages import Join, Update

EDGE = [sys.executable, "-m", "topwatch", "edge"]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    try:
        with mosquitto(tmp_path_factory.mktemp("mosquitto")) as result:
            yield result
    except UnavailableError as error:
        pytest.skip(str(error))


@contextmanager
def coordinator_on(port: int, prefix: str) -> Iterator[Coordinator]:
    result = Coordinator(Server(PREFER), Broker(port=port), prefix, 0.0, PATIENCE)
    result.start()
    try:
        yield result
    finally:
        result.stop()


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command of ``topwatch edge``; it is killed when it takes too long."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    result = subprocess.Popen([*EDGE, *arguments], text=True, **pipes)  # type: ignore[call-overload]
    guard = threading.Timer(60.0, result.kill)
    guard.start()
    try:
        yield result
    finally:
        guard.cancel()
        result.kill()
        result.communicate()


def shown_by(coordinator: Coordinator, is_so: Callable[[list[str]], bool]) -> list[str]:
    """Go through timestamps until something is so of the lines about refusals, and return them."""
    end = time.monotonic() + 30.0
    shown: list[str] = []
    while not is_so(shown):
        assert time.monotonic() < end, shown
        shown += coordinator.tick().refusals
    return shown


def write(device: subprocess.Popen[str], line: str) -> None:
    assert device.stdin is not None
    device.stdin.write(line + "\n")
    device.stdin.flush()


def error_of(device: subprocess.Popen[str]) -> str:
    """Return standard error of an agent that ended with an error while its input was still open."""
    assert device.wait(60) == 2
    assert device.stderr is not None
    return device.stderr.read()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("1 2 3", "line 2: expected 2 numbers, got 3 numbers, '1 2 3'"),
        ("1", "line 2: expected 2 numbers, got 1 numbers, '1'"),
        ("1 warm", "line 2: expected 2 numbers, got '1 warm'"),
    ],
)
def test_an_agent_ends_with_an_error_at_a_line_that_cannot_be_used(port: int, line: str, error: str) -> None:
    with (
        coordinator_on(port, "lines") as coordinator,
        process("agent", "a", "--columns", "2", "--port", str(port), "--prefix", "lines") as device,
    ):
        write(device, "1 2")
        until(coordinator, lambda: coordinator.server.devices == ["a"])
        write(device, line)
        assert error_of(device) == f"topwatch: agent 'a': {error}\n"
        until(coordinator, lambda: not coordinator.server.devices)  # it has left


def test_an_agent_that_the_coordinator_refuses_ends_with_an_error(port: int) -> None:
    with (
        coordinator_on(port, "columns") as coordinator,
        process("agent", "a", "--columns", "3", "--port", str(port), "--prefix", "columns") as device,
    ):
        write(device, "1 2 3")
        shown = shown_by(coordinator, lambda _: device.poll() is not None)
        assert error_of(device) == "topwatch: agent 'a': refused by the coordinator: expected 2 values, got 3\n"
        assert "refused 'a': expected 2 values, got 3" in shown
        assert coordinator.tick().refused >= 1


def test_an_agent_that_the_broker_refuses_ends_with_an_error(tmp_path: Path, port: int) -> None:
    with mosquitto(tmp_path, {"boss": "secret", "a": "one"}) as other:
        where = ("--port", str(other), "--columns", "1", "--user", "a")
        with process("agent", "a", "--password", "wrong", *where) as device:
            assert "refused by the broker: Not authorized" in error_of(device)
        coordinator = Coordinator(
            Server({"x": "min"}), Broker(port=other, user="boss", password="secret"), every=0.0, patience=PATIENCE
        )
        coordinator.start()
        with process("agent", "b", "--password", "one", *where) as device:  # a may not speak for b
            write(device, "1")
            # It may read the announcements, and the broker refuses what it publishes.
            until(coordinator, lambda: device.poll() is not None)
            assert "refused by the broker: publishing: Not authorized" in error_of(device)
        coordinator.stop()


def test_values_that_cannot_be_used_count_as_missing_and_are_reported(port: int) -> None:
    values: list[object] = [(1.0, 2.0)]
    agent = Agent("a", 2, lambda tick: values[0], Broker(port=port), "unusable")  # type: ignore[arg-type,return-value]
    agent.start()
    with coordinator_on(port, "unusable") as coordinator:
        until(coordinator, lambda: coordinator.server.skyline == ["a"])
        for bad, problem in (((1.0,), "expected 2 values, got 1"), (("1", "warm"), "ValueError"), (7, "TypeError")):
            values[0] = bad
            until(coordinator, lambda: coordinator.server.skyline == [])
            until(coordinator, lambda problem=problem: problem in (agent.refusal or ""))
            values[0] = (1.0, 2.0)
            until(coordinator, lambda: coordinator.server.skyline == ["a"])
        assert agent.counters["unusable"] >= 3
    agent.stop()


def test_a_device_that_is_refused_a_thousand_times_is_one_line(port: int) -> None:
    import paho.mqtt.publish as publish

    topics = Topics("often")
    bad = {"topic": topics.up("bad"), "payload": Join("bad", 0, 7, (1.0,)).encode(), "qos": 1}
    forged = {"topic": topics.up("other"), "payload": Update("a", 0, 7, (1.0, 1.0)).encode(), "qos": 1}
    with coordinator_on(port, "often") as coordinator:
        coordinator.tick()
        publish.multiple([bad] * 1000 + [forged, {**bad, "payload": b"?"}], hostname="127.0.0.1", port=port)
        shown = shown_by(coordinator, lambda lines: len(lines) >= 3)
        result = coordinator.tick()
        assert (result.refused, result.refusals) == (1002, ())
        assert result.line().endswith("; 1002 refused")
        assert shown == [
            "refused 'bad': expected 2 values, got 1",
            "refused 'other': a message of the device 'a'",
            "refused 'bad': message: expected 12 to 640 bytes, got 1",
        ]
        assert json.loads(retained(port, "often/frequent"))["refused"] >= 1


def test_the_command_shows_refusals_and_its_status(port: int) -> None:
    import paho.mqtt.publish as publish

    arguments = ("coordinator", "--prefer", "x=min", "--prefer", "y=max", "--every", "0.1", "--ticks", "10000")
    with process(*arguments, "--port", str(port), "--prefix", "shown") as boss:
        assert boss.stdout is not None
        assert boss.stderr is not None
        boss.stdout.readline()
        assert_status(port, "shown", b"online")
        publish.multiple([{"topic": "shown/up/a", "payload": b"?", "qos": 1}] * 50, hostname="127.0.0.1", port=port)
        assert any("; 50 refused" in line for line in boss.stdout)
        boss.send_signal(signal.SIGINT)
        assert boss.wait(20) == 130
        lines = [line for line in boss.stderr.read().splitlines() if line]
        assert lines == ["topwatch: refused 'a': message: expected 12 to 640 bytes, got 1", "topwatch: interrupted"]
    assert_status(port, "shown", b"offline")


def test_the_broker_says_that_a_coordinator_is_gone(port: int) -> None:
    arguments = ("coordinator", "--prefer", "x=min", "--every", "0.1", "--port", str(port), "--prefix", "gone")
    with process(*arguments) as boss:
        assert boss.stdout is not None
        boss.stdout.readline()
        assert_status(port, "gone", b"online")
        boss.kill()
        boss.wait()
        assert_status(port, "gone", b"offline")
    with coordinator_on(port, "gone"):
        assert_status(port, "gone", b"online")
    assert_status(port, "gone", b"offline")


def test_the_will_of_an_earlier_connection_does_not_hide_a_coordinator(port: int) -> None:
    """A broker may notice only after the keepalive that a connection is gone, when the next one is long there."""
    ready = threading.Event()
    topic = Topics("earlier").status
    earlier = Connection(
        Broker(port=port), "", lambda *_: None, ready.set, lambda: Publication(topic, b"offline", retain=True)
    )
    earlier.start()
    assert ready.wait(20.0)
    with coordinator_on(port, "earlier"):
        assert_status(port, "earlier", b"online")
        earlier.stop(with_will=True)
        time.sleep(0.3)
        assert_status(port, "earlier", b"online")
    assert_status(port, "earlier", b"offline")


def test_answers_are_published_with_time_and_values(port: int) -> None:
    agent = Agent("a", 2, lambda tick: (3.5, float("-inf")), Broker(port=port), "answers")
    agent.start()
    with coordinator_on(port, "answers") as coordinator:
        until(coordinator, lambda: coordinator.server.skyline == ["a"])
        result = coordinator.tick()
        for topic in ("answers/skyline", "answers/frequent"):
            end = time.monotonic() + 20.0
            while (answer := json.loads(retained(port, topic)))["tick"] != result.tick:
                assert time.monotonic() < end
            assert answer["ids"] == ["a"]
            assert answer["values"] == {"a": {"x": 3.5, "y": "-Infinity"}}
            assert answer["time"] == result.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    agent.stop()
