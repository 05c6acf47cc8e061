"""What a broker may deliver to the coordinator and to an agent: any topic, any payload. No broker is needed."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import numpy as np

import topwatch as tw
from tests.fuzz.cases import Case, Target
from tests.fuzz.random_queries import pick
from tests.fuzz.words import bytes_changed
from topwatch.edge.mqtt.agent import Agent
from topwatch.edge.mqtt.connection import Broker, Topics, checked_id, encode_tick
from topwatch.edge.mqtt.coordinator import OFFLINE, Coordinator
from topwatch.edge.mqtt.result import payload_of
from topwatch.edge.protocol import Server
from topwatch.edge.protocol.messages import Filter, Join, Leave, Probe, Refusal, Reply, Schedule, Update

TOPICS = ["topwatch/up/a", "topwatch/up/b", "topwatch/up/", "topwatch/up", "topwatch/down/a", "topwatch/tick"]
TOPICS += ["topwatch/status"]
TOPICS += ["", "x", "topwatch/up/a/b", "topwatch/up/\x00", "topwatch/up/" + "é" * 99]
IDS = ["a", "a", "b", "é", "a/b"]


def make(rng: np.random.Generator) -> Case:
    steps: list[Any] = []
    for _ in range(int(rng.integers(1, 30))):
        kind = rng.random()
        if kind < 0.25:
            steps.append(["tick"])
        else:
            data = _message(rng)
            if rng.random() < 0.5:
                data = bytes_changed(rng, data)
            whom = pick(rng, ["coordinator", "agent"])
            steps.append([whom, pick(rng, TOPICS), base64.b64encode(data).decode()])
    words = ["topwatch", "", "a/b", "#", "/x", "x/", "$SYS", "\x00", "a+b", "é"]
    return {"steps": steps, "prefix": pick(rng, words), "id": pick(rng, [*words, "x" * 64, "x" * 65, "é" * 33])}


def _message(rng: np.random.Generator) -> bytes:
    id, tick, run = pick(rng, IDS), int(pick(rng, [0, 1, 2, 5, 2**32 - 1])), int(pick(rng, [0, 1]))
    values = tuple(float(pick(rng, [0.0, 1.0, np.nan, np.inf])) for _ in range(int(pick(rng, [1, 2, 2, 3]))))
    kind = int(rng.integers(0, 11))
    if kind < 3:
        return (Join, Update, Reply)[kind](id, tick, run, values).encode()
    if kind < 5:
        return (Leave, Probe)[kind - 3](id, tick, run).encode()
    if kind == 5:
        return Filter(id, tick, run, int(pick(rng, [1, 2])), (0.0,) * len(values), (1.0,) * len(values)).encode()
    if kind == 6:
        return Schedule(id, tick, run, int(pick(rng, [0, 2])), 7, 0.5).encode()
    if kind == 7:
        return Refusal(id, tick, run, pick(rng, ["expected 2 values, got 3", "é" * 100])).encode()
    if kind == 8:
        return OFFLINE
    return encode_tick(int(pick(rng, [0, 1, 7])), tick)


def run(case: Case) -> None:
    for check, word in ((Topics, case["prefix"]), (checked_id, case["id"])):
        with contextlib.suppress(tw.TopwatchError):
            check(word)
    coordinator = Coordinator(Server({"x": "min", "y": "max"}), Broker(), every=0.0, patience=0.0, timeout=0.0)
    agent = Agent("a", 2, lambda tick: (float(tick % 7), 1.0), Broker())
    for whom, *what in case["steps"]:
        if whom == "tick":
            result = coordinator.tick()
            assert set(result.skyline or []) <= set(result.devices)
            json.dumps(result.line())
            answer = json.loads(payload_of(result, {id: coordinator.server.values(id) for id in result.devices}))
            assert set(answer["values"]) <= set(answer["ids"])
            assert len(result.refusals) <= result.refused
        elif whom == "coordinator":
            coordinator._receive(what[0], base64.b64decode(what[1]))
        else:
            agent._receive(what[0], base64.b64decode(what[1]))
    agent.stop()
    coordinator.stop()


TARGET = Target("mqtt", make, run, short=40)
