"""A connection to an MQTT 5 broker, its topics, and the broadcast that starts a timestamp. Only this file knows paho.

Devices publish under ``<prefix>/up/<id>`` and subscribe to ``<prefix>/down/<id>`` and ``<prefix>/tick``;
``<prefix>/skyline``, ``<prefix>/frequent`` and ``<prefix>/status`` are retained. So a broker's access list needs two
lines to keep each device to its own topics.
"""

from __future__ import annotations

import importlib
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from topwatch.edge.protocol.messages import LONGEST_ID, VERSION, id_size, is_id
from topwatch.query.errors import DataError, QueryError, TopwatchError

LARGEST = 4096  # bytes of a packet that is taken; ours are shorter
_KEEPALIVE = 15  # seconds
_QOS = 1
_TICK = struct.Struct("!BII")
_PARTS = ("client", "packettypes", "properties", "reasoncodes")
_DISCONNECT_WITH_WILL = 0x04
# Refusals that another attempt does not change: the protocol's version, client id, password, authorization, a ban and
# the method of authentication.
_LASTING = frozenset({0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C})


class ConnectionFailedError(TopwatchError, ConnectionError):
    """A broker that cannot be reached, or that refuses."""


@dataclass(frozen=True)
class Broker:
    """How to reach a broker.

    Parameters
    ----------
    host, port : str, int
        Where it listens.
    user, password : str, optional
        Passed through.
    tls : bool
        Encrypt, and check the broker's certificate.
    ca, certificate, key : str, optional
        Files: the authority to trust instead of the system's, and this client's own certificate and key.
    """

    host: str = "127.0.0.1"
    port: int = 1883
    user: str | None = None
    password: str | None = None
    tls: bool = False
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if not self.host:
            raise QueryError("host: expected the name or address of a broker, got ''")
        if not 0 < self.port < 65536:
            raise QueryError(f"port: expected 1 to 65535, got {self.port!r}")
        if self.password is not None and self.user is None:
            raise QueryError("password: a user is needed with it")
        if not self.tls and (self.ca or self.certificate or self.key):
            raise QueryError("tls: certificates are given, but tls is off")


class Publication(NamedTuple):
    """What is published, and where."""

    topic: str
    payload: bytes
    retain: bool = False


class Connection:
    """A client of a broker with a thread of its own, in which all callbacks run.

    Parameters
    ----------
    broker : Broker
        Where to.
    name : str
        The client id; empty for one that the broker chooses.
    on_message : callable
        Called with topic and payload.
    on_connect : callable
        Called after each connecting.
    will : callable, optional
        Returns the last will; called before each connecting.
    on_refusal : callable, optional
        Called with the reason when the broker refuses the client, or what it publishes, for good.
    """

    def __init__(
        self,
        broker: Broker,
        name: str,
        on_message: Callable[[str, bytes], None],
        on_connect: Callable[[], None],
        will: Callable[[], Publication] | None = None,
        on_refusal: Callable[[str], None] | None = None,
    ) -> None:
        try:
            mqtt, packets, properties, reasons = (importlib.import_module(f"paho.mqtt.{part}") for part in _PARTS)
        except ImportError as error:
            raise TopwatchError("edge: paho-mqtt is missing; install topwatch[edge]") from error
        self._broker = broker
        self._will = will
        self.refusal: str | None = None  # why the broker does not take us
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5)
        if broker.user is not None:
            client.username_pw_set(broker.user, broker.password)
        if broker.tls:
            context = ssl.create_default_context(cafile=broker.ca)
            if broker.certificate:
                context.load_cert_chain(broker.certificate, broker.key)
            client.tls_set_context(context)
        client.reconnect_delay_set(min_delay=1, max_delay=30)
        self._properties: Any = properties.Properties(packets.PacketTypes.CONNECT)
        self._properties.MaximumPacketSize = LARGEST

        def connected(_client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any = None) -> None:
            if reason.is_failure:
                refused(reason, str(reason))
                return
            self.refusal = None
            on_connect()

        def published(_client: Any, _data: Any, _number: Any, reason: Any, _properties: Any = None) -> None:
            if reason.is_failure:
                refused(reason, f"publishing: {reason}")

        def refused(reason: Any, text: str) -> None:
            self.refusal = text
            if on_refusal is not None and reason.value in _LASTING:
                on_refusal(text)

        def disconnected(*_: Any) -> None:
            self._set_will()

        client.on_connect = connected
        client.on_disconnect = disconnected
        client.on_publish = published
        client.on_message = lambda _client, _data, message: on_message(message.topic, message.payload)
        self._client: Any = client
        self._with_will = reasons.ReasonCode(packets.PacketTypes.DISCONNECT, identifier=_DISCONNECT_WITH_WILL)

    def start(self, patient: bool = False) -> None:
        """Connect; later losses are mended silently, and so is the first attempt if ``patient``."""
        self._set_will()
        broker = self._broker
        how = {"keepalive": _KEEPALIVE, "clean_start": True, "properties": self._properties}
        try:
            if patient:
                self._client.connect_async(broker.host, broker.port, **how)
            else:
                self._client.connect(broker.host, broker.port, **how)
        except OSError as error:
            raise ConnectionFailedError(f"broker {broker.host}:{broker.port}: {error}") from error
        self._client.loop_start()

    def subscribe(self, *topics: str) -> None:
        """Subscribe to topics."""
        self._client.subscribe([(topic, _QOS) for topic in topics])

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        """Send; while there is no connection the message is queued."""
        self._client.publish(topic, payload, _QOS, retain)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return bool(self._client.is_connected())

    def stop(self, with_will: bool = False) -> None:
        """Disconnect; the broker publishes the last will only where it is asked to."""
        self._client.disconnect(self._with_will if with_will else None)
        self._client.loop_stop()
        # Paho closes its sockets when the client is dropped: nothing may hold on to it in a circle.
        self._client.on_connect = self._client.on_disconnect = None
        self._client.on_message = self._client.on_publish = self._will = None

    def _set_will(self) -> None:
        if self._will is not None:
            topic, payload, retain = self._will()
            self._client.will_set(topic, payload, _QOS, retain)


@dataclass(frozen=True)
class Topics:
    """Names of topics.

    >>> Topics("plant/4").up("pump-7"), Topics("plant/4").device("plant/4/up/pump-7")
    ('plant/4/up/pump-7', 'pump-7')
    """

    prefix: str = "topwatch"

    def __post_init__(self) -> None:
        odd = set("#+\0") & set(self.prefix) or not id_size(self.prefix)
        if odd or self.prefix[0] in "/$" or self.prefix[-1] == "/":
            raise QueryError(f"prefix: expected the beginning of a topic without '#' and '+', got {self.prefix!r}")

    def up(self, id: str) -> str:
        """Return where a device publishes; ``+`` for all."""
        return f"{self.prefix}/up/{id}"

    def down(self, id: str) -> str:
        """Return where a device receives messages."""
        return f"{self.prefix}/down/{id}"

    @property
    def tick(self) -> str:
        """Where timestamps are announced."""
        return f"{self.prefix}/tick"

    @property
    def skyline(self) -> str:
        """Where the skyline is retained."""
        return f"{self.prefix}/skyline"

    @property
    def frequent(self) -> str:
        """Where the frequent skyline is retained."""
        return f"{self.prefix}/frequent"

    @property
    def status(self) -> str:
        """Where it is retained whether the coordinator is there."""
        return f"{self.prefix}/status"

    def device(self, topic: str) -> str:
        """Return the device that a topic belongs to."""
        return topic.removeprefix(self.up(""))


def checked_id(id: str) -> str:
    """Return the id of a device, or refuse it: it is a part of topics."""
    if not is_id(id) or set("/#+\0") & set(id):
        raise QueryError(f"id: expected 1 to {LONGEST_ID} bytes of UTF-8 without '/', '#' and '+', got {id!r}")
    return id


def encode_tick(epoch: int, tick: int) -> bytes:
    """Return the broadcast of a timestamp; the epoch is another after each start of the coordinator."""
    return _TICK.pack(VERSION, epoch, tick)


def decode_tick(data: bytes) -> tuple[int, int]:
    """Return epoch and timestamp.

    >>> decode_tick(encode_tick(7, 12))
    (7, 12)
    """
    if len(data) != _TICK.size:
        raise DataError(f"tick: expected {_TICK.size} bytes, got {len(data)}")
    version, epoch, tick = _TICK.unpack(data)
    if version != VERSION:
        raise DataError(f"tick: expected version {VERSION}, got {version}")
    return epoch, tick
