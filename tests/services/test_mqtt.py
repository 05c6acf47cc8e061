"""Agents and the coordinator over a real broker."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import agent_runs
from tests.support.mqtt_checks import PATIENCE, PREFER, assert_retained, until
from tests.support.servers.maven_jars import UnavailableError
from tests.support.servers.mosquitto import mosquitto

pytest.importorskip("paho.mqtt", reason="paho-mqtt is missing: install topwatch[edge]")

from topwatch.edge.mqtt.agent import Agent
from topwatch.edge.mqtt.connection import Broker, Topics
from topwatch.edge.mqtt.coordinator import Coordinator
from topwatch.edge.protocol import Server
from topwatch.edge.protocol.messages import Join, Update
from topwatch.query.errors import TopwatchError


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    try:
        with mosquitto(tmp_path_factory.mktemp("mosquitto")) as result:
            yield result
    except UnavailableError as error:
        pytest.skip(str(error))


def test_the_skyline_over_agents_that_are_killed_is_the_oracles(port: int, request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--seed")
    course = agent_runs.run(port, count=20, ticks=40, each=2, patience=0.15, seed=seed)
    # Where the machine is so busy that messages came too late, the coordinator has counted them.
    assert {tick: what for tick, what in course.wrong.items() if tick not in course.doubtful} == {}
    assert len(course.doubtful) < course.ticks == 40
    assert course.counters["received"] < course.uplink_of_naive


def test_results_are_retained_and_a_restart_goes_on(port: int, tmp_path: Path) -> None:
    values = {"a": (1.0, 1.0), "b": (2.0, 2.0)}
    running = [Agent(n, 2, lambda tick, n=n: values[n], Broker(port=port), "restart") for n in values]
    for agent in running:
        agent.start()
    state = tmp_path / "state"

    def coordinator(**options: object) -> Coordinator:
        result = Coordinator(
            Server(PREFER, **{"share": 0.5, **options}), Broker(port=port), "restart", 0.0, PATIENCE, state=state
        )
        result.start()
        return result

    first = coordinator()
    until(first, lambda: len(first.server.devices) == 2)
    for _ in range(6):
        first.tick()
    last = first.server.tick
    first.stop()
    values["b"] = (0.0, 0.0)
    second = coordinator()
    assert second.server.tick == last
    until(second, lambda: second.server.skyline == ["b"])
    assert second.server.frequent == ["a"]  # it had most of the window, which has outlived the restart
    about = {"tick": second.server.tick, "devices": len(second.server.devices), "refused": second.tick().refused}
    about["tick"] = second.server.tick
    assert_retained(port, "restart/skyline", {**about, "ids": ["b"], "values": {"b": {"x": 0.0, "y": 0.0}}})
    assert_retained(port, "restart/frequent", {**about, "ids": ["a"], "values": {"a": {"x": 1.0, "y": 1.0}}})
    running[1].stop()
    until(second, lambda: second.server.devices == ["a"] and second.server.skyline == ["a"])
    running[0].stop()
    second.stop()
    with pytest.raises(TopwatchError, match="another query"):
        coordinator(share=0.6)
    state.write_bytes(b"no state")
    with pytest.raises(TopwatchError, match="damaged"):
        coordinator()


def test_forged_and_malformed_messages_harm_nobody(port: int) -> None:
    import paho.mqtt.publish as publish

    topics = Topics("forged")
    agent = Agent("a", 2, lambda tick: (1.0, 1.0), Broker(port=port), "forged")
    agent.start()
    coordinator = Coordinator(Server(PREFER), Broker(port=port), "forged", 0.0, PATIENCE)
    coordinator.start()
    until(coordinator, lambda: bool(coordinator.server.devices))
    bad = {
        "refused_topic": (topics.up("b"), Update("a", 1, 0, (0.0, 0.0)).encode()),
        "refused_run": (topics.up("a"), Update("a", coordinator.server.tick, 1, (0.0, 0.0)).encode()),
        "refused_unknown": (topics.up("c"), Update("c", 1, 0, (0.0, 0.0)).encode()),
        "refused_columns": (topics.up("d"), Join("d", 1, 0, (0.0,)).encode()),
        "refused_malformed": (topics.up("a"), b"\x01\x02 nonsense"),
    }
    messages = [{"topic": topic, "payload": payload, "qos": 1} for topic, payload in bad.values()]
    messages += [{"topic": topics.up("a"), "payload": b"\0" * 100_000}, {"topic": topics.down("a"), "payload": b"?"}]
    messages += [{"topic": topics.tick, "payload": b"?" * 9}]
    publish.multiple(messages, hostname="127.0.0.1", port=port)
    until(coordinator, lambda: set(bad) <= set(coordinator.server.counters))
    result = coordinator.tick()
    assert (result.skyline, result.devices) == (["a"], ["a"])
    until(coordinator, lambda: agent.counters["refused"] == 2)
    agent.stop()
    coordinator.stop()


def test_a_device_that_was_dropped_joins_again(port: int) -> None:
    agent = Agent("a", 2, lambda tick: (float(tick), 1.0), Broker(port=port), "dropped")
    agent.start()
    coordinator = Coordinator(Server(PREFER, "naive"), Broker(port=port), "dropped", 0.0, PATIENCE)
    coordinator.start()
    until(coordinator, lambda: coordinator.server.devices == ["a"])
    coordinator.server.waiting.add("a")  # as if it had been probed and had not replied
    coordinator.server.drop_silent()
    assert coordinator.server.devices == []
    until(coordinator, lambda: coordinator.server.devices == ["a"])
    assert coordinator.server.counters["refused_unknown"] == 1
    agent.stop()
    coordinator.stop()


def test_messages_of_devices_arrive_in_the_first_timestamp_of_a_new_connection(port: int) -> None:
    agent = Agent("a", 2, lambda tick: (1.0, 1.0), Broker(port=port), "again")
    agent.start()
    coordinator = Coordinator(Server(PREFER), Broker(port=port), "again", 0.0, PATIENCE)
    coordinator.start()
    until(coordinator, lambda: coordinator.server.devices == ["a"])
    coordinator._connections = 2  # as if it had been without a connection, and the agent had not
    until(coordinator, lambda: coordinator.server.devices == ["a"] and agent.counters["sent"] == 2)
    assert coordinator.server.counters["refused_tick"] == 0
    agent.stop()
    coordinator.stop()


def test_agents_outlive_the_broker(tmp_path: Path, port: int) -> None:
    """The broker goes and comes back; agents and coordinator connect again, and devices join again."""
    agent = coordinator = None
    try:
        with mosquitto(tmp_path) as other:
            agent = Agent("a", 2, lambda tick: (1.0, 1.0), Broker(port=other))
            agent.start()
            coordinator = Coordinator(Server(PREFER), Broker(port=other), every=0.0, patience=PATIENCE)
            coordinator.start()
            until(coordinator, lambda: coordinator.server.devices == ["a"])
        with mosquitto(tmp_path, port=other):
            # An agent without a broker waits twice as long before the next try, up to half a minute.
            until(coordinator, lambda: agent.counters["connected"] > 1 and coordinator.server.devices == ["a"], 90.0)
            assert coordinator.tick().skyline == ["a"]
    finally:
        if agent is not None:
            agent.stop()
        if coordinator is not None:
            coordinator.stop()


def test_users_and_tls_are_passed_through(tmp_path: Path, port: int) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    users = {"boss": "secret", "a": "one", "b": "two"}
    with mosquitto(tmp_path, users, (certificate, key)) as safe:

        def broker(user: str, password: str) -> Broker:
            return Broker("127.0.0.1", safe, user, password, tls=True, ca=str(certificate))

        good = Agent("a", 2, lambda tick: (1.0, 1.0), broker("a", "one"))
        other = Agent("c", 2, lambda tick: (0.0, 0.0), broker("b", "two"))  # b may not speak for c
        wrong = Agent("b", 2, lambda tick: (0.0, 0.0), broker("b", "wrong"))
        coordinator = Coordinator(Server(PREFER), broker("boss", "secret"), every=0.0, patience=PATIENCE)
        coordinator.start()
        for agent in (good, other, wrong):
            agent.start()
        until(coordinator, lambda: bool(coordinator.server.devices))
        until(coordinator, lambda: wrong.refusal is not None)
        until(coordinator, lambda: other.counters["sent"] > 0)
        assert coordinator.tick().devices == ["a"]
        for agent in (good, other, wrong):
            agent.stop()
        coordinator.stop()
        with pytest.raises(TopwatchError):
            Coordinator(Server(PREFER), broker("boss", "guess"), timeout=10.0).start()


def test_the_commands(port: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "topwatch", "edge"]
    where = ["--port", str(port), "--prefix", "commands"]
    devices = []
    for name, line in {"a": "1 5", "b": "2, 6"}.items():
        device = subprocess.Popen([*command, "agent", name, "--columns", "2", *where], stdin=subprocess.PIPE, text=True)
        assert device.stdin is not None
        device.stdin.write(line + "\n")
        device.stdin.flush()
        devices.append(device)
    arguments = ["coordinator", "--prefer", "x=min", "--prefer", "y=max", "--every", "0.2", "--ticks", "200", *where]
    boss = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
    guard = threading.Timer(60.0, boss.kill)
    guard.start()
    try:
        assert boss.stdout is not None
        assert any("2 devices, skyline a, b" in line for line in boss.stdout)
        devices[0].stdin.close()
        assert devices[0].wait(20) == 0
        assert any("1 device, skyline b" in line for line in boss.stdout)
    finally:
        guard.cancel()
        for process in (*devices, boss):
            process.kill()
            process.communicate()
