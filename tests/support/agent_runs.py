"""Agents over a real broker, some of them killed and started again, beside the oracle at every timestamp.

Run as a script it is the long form: ``python -m tests.support.agent_runs --agents 200 --ticks 500``. Agents live in
processes of a few each; killing a process is what a power cut is to its devices.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import ROOT

COLUMNS = ("a", "b", "c")
PREFER = {"a": "min", "b": "max", "c": "min"}


def reading(name: str, tick: int) -> tuple[float, ...]:
    """Return the values of a device at a timestamp: around a point of its own, ties now and then."""
    index = random.Random(name)
    moved = random.Random(f"{name}/{tick // 3}" if int(index.random() * 4) else f"{name}/{tick}")
    return tuple(round(index.random() + 0.1 * moved.random(), 2) for _ in COLUMNS)


def agents(names: list[str], port: int) -> None:
    """Run agents in this process until it is killed or its input ends."""
    from topwatch.edge.mqtt.agent import Agent
    from topwatch.edge.mqtt.connection import Broker

    running = [Agent(n, len(COLUMNS), lambda tick, n=n: reading(n, tick), Broker(port=port)) for n in names]
    for agent in running:
        agent.start()
    assert "numpy" not in sys.modules
    sys.stdin.read()
    for agent in running:
        agent.stop()


@dataclass
class Course:
    """What a run saw."""

    ticks: int = 0
    wrong: dict[int, str] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)  # timestamps for which a message came too late
    killed: int = 0
    smallest: int = 10**9
    counters: Counter[str] = field(default_factory=Counter)
    uplink_of_naive: int = 0
    seconds: float = 0.0


class AgentProcesses:
    """Processes of agents that can be killed and started again."""

    def __init__(self, count: int, each: int, port: int) -> None:
        names = [f"device-{number}" for number in range(count)]
        self.groups = [names[start : start + each] for start in range(0, count, each)]
        self.port = port
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * len(self.groups)

    def start(self, group: int) -> None:
        command = [sys.executable, "-m", "tests.support.agent_runs", "--run", ",".join(self.groups[group])]
        command += ["--port", str(self.port)]
        self.processes[group] = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)

    def kill(self, group: int) -> int:
        process = self.processes[group]
        assert process is not None
        process.kill()
        process.communicate()
        self.processes[group] = None
        return len(self.groups[group])

    def down(self) -> set[str]:
        pairs = zip(self.groups, self.processes, strict=True)
        return {name for group, process in pairs if process is None for name in group}

    def stop(self) -> None:
        for group, process in enumerate(self.processes):
            if process is not None:
                self.kill(group)


def run(port: int, count: int, ticks: int, each: int, patience: float, seed: int, method: str = "filter") -> Course:
    """Run agents; a tenth of them is killed and started again, at other moments, some several times."""
    import numpy as np

    from tests.support import moving_records
    from topwatch.edge.mqtt.connection import Broker
    from topwatch.edge.mqtt.coordinator import Coordinator
    from topwatch.edge.protocol import Server

    rng = random.Random(seed)
    course = Course()
    processes = AgentProcesses(count, each, port)
    victims = rng.sample(range(len(processes.groups)), max(1, round(len(processes.groups) * 0.1)))
    coordinator = Coordinator(Server(PREFER, method, window=20), Broker(port=port), every=0.0, patience=patience)
    coordinator.start()
    for group in range(len(processes.groups)):
        processes.start(group)
    begin = time.monotonic()
    before: set[str] = set()
    try:
        while course.ticks < ticks:
            result = coordinator.tick()
            if len(result.devices) < count and not course.ticks:
                continue  # until all have come
            for late in result.late:
                course.doubtful.update(range(late, result.tick))
            course.ticks += 1
            course.smallest = min(course.smallest, len(result.devices))
            rows = np.array([reading(name, result.tick) for name in result.devices]).reshape(-1, len(COLUMNS))
            right = {result.devices[r] for r in moving_records.skyline(rows, list(PREFER.values()))}
            course.uplink_of_naive += len(result.devices)
            if result.skyline is not None and set(result.skyline) != right:
                course.wrong[result.tick] = f"{sorted(set(result.skyline) ^ right)}"
            # Who is there must be as processes say it, once wills and joins have had a timestamp to arrive.
            down = processes.down()
            if down & before & set(result.devices):
                course.wrong[result.tick] = f"killed and still there: {sorted(down & set(result.devices))}"
            before = down
            for group in victims:
                if processes.processes[group] is None:
                    if rng.random() < 0.3:
                        processes.start(group)
                elif rng.random() < 0.1:
                    course.killed += processes.kill(group)
        for group in victims:
            if processes.processes[group] is None:
                processes.start(group)
        end = time.monotonic() + 60.0
        while len(coordinator.tick().devices) < count:
            assert time.monotonic() < end, "devices that were started again did not join"
        course.seconds = time.monotonic() - begin
        course.counters = coordinator.server.counters
    finally:
        processes.stop()
        coordinator.stop()
    return course


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--ticks", type=int, default=500)
    parser.add_argument("--each", type=int, default=10, help="agents in a process")
    parser.add_argument("--patience", type=float, default=0.25)
    parser.add_argument("--method", default="filter")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", help="names of agents to run in this process")
    parser.add_argument("--port", type=int)
    given = parser.parse_args()
    if given.run:
        agents(given.run.split(","), given.port)
        return
    from tests.support.servers.mosquitto import mosquitto

    with tempfile.TemporaryDirectory() as folder, mosquitto(Path(folder)) as port:
        course = run(port, given.agents, given.ticks, given.each, given.patience, given.seed, given.method)
    print(f"{course.ticks} timestamps, {given.agents} agents, at least {course.smallest} there, {course.killed} killed")
    print(f"{dict(course.counters)}; naive would have sent {course.uplink_of_naive}; {course.seconds:.0f} s")
    print("late for:", sorted(course.doubtful) or "none")
    print("wrong:", course.wrong or "nothing")
    sys.exit(bool(course.wrong))


if __name__ == "__main__":
    main()
