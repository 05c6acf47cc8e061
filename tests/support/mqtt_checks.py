"""What tests of agents and the coordinator wait for and compare on a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

from topwatch.edge.mqtt.coordinator import Coordinator

PREFER = {"x": "min", "y": "min"}
PATIENCE = 0.1


def until(coordinator: Coordinator, is_so: Callable[[], bool], seconds: float = 30.0) -> None:
    """Go through timestamps until something is so."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        coordinator.tick()


def retained(port: int, topic: str) -> bytes:
    """Return what another client receives from a topic."""
    import paho.mqtt.subscribe as subscribe

    payload: bytes = subscribe.simple(topic, hostname="127.0.0.1", port=port, keepalive=5).payload
    return payload


def assert_retained(port: int, topic: str, expected: dict[str, object]) -> None:
    """Assert what is published without its time, which must be now, after the moment that publishing takes."""
    end = time.monotonic() + 20.0
    while True:
        result = json.loads(retained(port, topic))
        written = result.pop("time")
        if result == expected or time.monotonic() > end:
            assert result == expected
            assert written.endswith("Z")
            assert abs((datetime.now(UTC) - datetime.fromisoformat(written)).total_seconds()) < 60.0
            return


def assert_status(port: int, prefix: str, expected: bytes) -> None:
    """Assert the status that is retained, after the moment that publishing takes."""
    end = time.monotonic() + 20.0
    while (status := retained(port, f"{prefix}/status")) != expected:
        assert time.monotonic() < end, status
        time.sleep(0.05)
