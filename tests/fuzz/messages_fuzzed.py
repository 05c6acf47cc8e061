"""Devices and a server that talk in bytes: right where nothing is changed, and never but refused where it is."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

import topwatch as tw
from tests.fuzz.cases import Case, Target
from tests.fuzz.random_queries import pick
from tests.fuzz.words import bytes_changed
from tests.support.moving_records import skyline
from topwatch.edge.protocol import Client, Server
from topwatch.edge.protocol.messages import Message, decode
from topwatch.edge.protocol.methods import METHODS

VALUES = [0.0, 0.25, 0.5, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e308, -0.0]
NAMES = [f"d{number}" for number in range(6)]


def make(rng: np.random.Generator) -> Case:
    prefer = {f"x{number}": pick(rng, ["min", "max"]) for number in range(int(rng.integers(1, 4)))}
    odd = rng.random() < 0.4
    steps: list[Any] = []
    for _ in range(int(rng.integers(2, 25))):
        reported = {}
        for name in NAMES:
            if rng.random() < 0.8:
                usual = [float(rng.integers(0, 4)) if rng.random() < 0.6 else rng.random() for _ in prefer]
                reported[name] = [float(pick(rng, VALUES)) for _ in prefer] if odd and rng.random() < 0.3 else usual
        steps.append(
            {
                "told": reported,
                "leave": pick(rng, NAMES) if rng.random() < 0.1 else None,
                "noise": int(rng.integers(0, 2**31)),
            }
        )
    return {
        "prefer": prefer,
        "method": pick(rng, list(METHODS)),
        "share": float(pick(rng, [0.3, 0.8, 1.0])),
        "window": int(pick(rng, [1, 3, 10])),
        "noisy": bool(rng.random() < 0.5),
        "steps": steps,
    }


def run(case: Case) -> None:
    Talk(case).run()


class Talk:
    """A server and devices; what they say goes through bytes, some of which are changed."""

    def __init__(self, case: Case) -> None:
        self.case, self.columns = case, len(case["prefer"])
        self.server = Server(case["prefer"], case["method"], case["share"], case["window"])
        self.devices = {name: Client(name, self.columns) for name in NAMES}
        self.last: dict[str, list[float]] = {}
        self.received: list[bytes] = [b""]
        self.rng = np.random.default_rng(0)

    def run(self) -> None:
        for tick, step in enumerate(self.case["steps"]):
            self.rng = np.random.default_rng(step["noise"])
            self.server.begin(tick)
            if step["leave"] is not None and step["leave"] in self.last:
                self.up([self.devices[step["leave"]].leave()])
                del self.last[step["leave"]]
                self.devices[step["leave"]] = Client(step["leave"], self.columns)
            for name, values in step["told"].items():
                self.last[name] = values
            for name, values in self.last.items():
                self.up(self.devices[name].observe(tick, values))
            while probes := self.server.ask():
                self.down(probes)
                if self.case["noisy"]:
                    self.down(self.server.drop_silent())
            self.down(self.server.finish())
            if not self.case["noisy"]:
                self.compare(tick)

    def up(self, messages: list[Message]) -> None:
        for message in messages:
            for received in self.carried(message):
                self.server.receive(received)

    def down(self, messages: Any) -> None:
        for message in messages:
            for received in self.carried(message):
                device = self.devices.get(received.id) or self.devices[NAMES[0]]
                self.up(device.receive(received))

    def carried(self, message: Message) -> list[Message]:
        """What comes of a message: itself, or in noise nothing, something else, an older one, or several."""
        data = message.encode()
        if not self.case["noisy"]:
            again = decode(data)
            assert repr(again) == repr(message), f"{message} became {again}"
            return [again]
        self.received.append(data)
        sent = [data] if self.rng.random() < 0.9 else []
        if self.rng.random() < 0.3:
            sent.append(bytes_changed(self.rng, pick(self.rng, self.received)))
        result = []
        for one in sent:
            with contextlib.suppress(tw.DataError):
                result.append(decode(one))
        for one in result:
            assert repr(decode(one.encode())) == repr(one)
        return result

    def compare(self, tick: int) -> None:
        names = list(self.last)
        if self.server.skyline is None:
            return
        values = np.array([self.last[name] for name in names]).reshape(len(names), self.columns)
        wanted = {names[number] for number in skyline(values, list(self.case["prefer"].values()))} if names else set()
        assert set(self.server.skyline) == wanted, f"tick {tick}: {self.server.skyline} instead of {wanted}"


TARGET = Target("messages", make, run, short=40)
