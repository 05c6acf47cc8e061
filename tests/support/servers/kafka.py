"""A real Kafka broker for tests: one node, broker and controller in one, on loopback, data in a temporary folder."""

from __future__ import annotations

import functools
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.servers.loopback import HOST, free_port, serving
from tests.support.servers.maven_jars import Module, UnavailableError, fetch, java

PARTITIONS = 2
BROKER = Module("org.apache.kafka", "kafka_2.13", "4.1.2")

_GROUP = "org.apache.spark"
_CONNECTOR = "spark-sql-kafka-0-10_2.13"
# The newest parts that go together where no repository has the connector of this very Spark; Spark brings the rest.
_NEAREST = (
    Module(_GROUP, _CONNECTOR, "4.2.0", alone=True),
    Module(_GROUP, "spark-token-provider-kafka-0-10_2.13", "4.0.0", alone=True),
    Module("org.apache.kafka", "kafka-clients", "3.9.2", alone=True),
    Module("org.apache.commons", "commons-pool2", "2.13.1", alone=True),
)


@functools.cache
def connector() -> list[Path]:
    """Return the jars that join Spark and Kafka: those of this Spark's version, or else the nearest older ones."""
    try:
        return fetch(Module(_GROUP, _CONNECTOR, pyspark.__version__))
    except UnavailableError:
        return fetch(*_NEAREST)


@contextmanager
def kafka() -> Iterator[str]:
    """Run a broker and yield its address; topics come into being, with two partitions, when they are written to."""
    jars = fetch(BROKER)[0].parent
    with tempfile.TemporaryDirectory(prefix="topwatch-kafka-") as folder:
        port, settings = free_port(), Path(folder) / "server.properties"
        settings.write_text(_properties(port, free_port(), Path(folder) / "data"))
        run = [java(), "-Xmx256m", "-cp", jars / "*"]
        subprocess.run(
            [*run, "kafka.tools.StorageTool", "format", "--cluster-id", "topwatch", "--config", settings],
            check=True,
            capture_output=True,
            timeout=60.0,
        )
        with serving([*run, "kafka.Kafka", settings], port, Path(folder) / "log", signal.SIGTERM):
            yield f"{HOST}:{port}"


def _properties(port: int, controller: int, data: Path) -> str:
    return f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{HOST}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}
log.dirs={data}
num.partitions={PARTITIONS}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
