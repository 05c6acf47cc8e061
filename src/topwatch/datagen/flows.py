"""Network flows as a router reports them, with an attack that builds up: rows that tell a story.

Ordinary traffic is clients of one network that talk to a few servers: most flows are small, a few are large, as in real
traffic. After ``QUIET`` rows a flood begins: hosts from elsewhere send one name server ever more packets, small ones.
Their share of the flows and their rate grow for ``BUILD_UP`` rows and stay there.

Addresses are those that are reserved for private networks and for documentation (RFC 1918, RFC 5737). As with the other
generators, a row depends on nothing but the seed and its number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import SeedSequence, default_rng

BLOCK = 8192  # rows that are made together
QUIET = 600_000  # rows before the flood
BUILD_UP = 1_200_000  # rows for which it grows
SHARE = 0.02  # of all flows, in the end
RATE = 60.0  # times as many packets a second as in the beginning, in the end
SERVERS = ("10.0.0.10:443", "10.0.0.11:443", "10.0.0.20:25", "10.0.0.30:5432", "10.0.0.53:53")
VICTIM = "10.0.0.53:53"

SCHEMA = pa.schema(
    [("flow", pa.string()), ("bytes", pa.float64()), ("packets", pa.float64()), ("seconds", pa.float64())]
)


class _Values(NamedTuple):
    packets: np.ndarray
    size: np.ndarray  # bytes of a packet
    seconds: np.ndarray


def part(seed: int, start: int, stop: int) -> pa.RecordBatch:
    """Return the rows ``start`` to ``stop`` - 1.

    >>> part(0, 0, 2).to_pylist()[0]
    {'flow': '10.1.22.133>10.0.0.30:5432', 'bytes': 2787.0, 'packets': 2.0, 'seconds': 0.082}
    >>> bool(part(0, 9000, 9002) == part(0, 0, 9002).slice(9000))
    True
    """
    first = start // BLOCK
    blocks = [_block(seed, number) for number in range(first, max(first, -(-stop // BLOCK)))]
    if not blocks:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    columns = [pa.concat_arrays([block.column(i) for block in blocks]) for i in range(len(SCHEMA))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA).slice(start - first * BLOCK, stop - start)


def _block(seed: int, number: int) -> pa.RecordBatch:
    rng = default_rng(SeedSequence(seed, spawn_key=(number,)))
    progress = np.clip((number * BLOCK + np.arange(BLOCK) - QUIET) / BUILD_UP, 0.0, 1.0)
    flood = rng.random(BLOCK) < SHARE * progress
    usual, attack = _usual(rng), _attack(rng, progress)
    packets = np.where(flood, attack.packets, usual.packets)
    size = np.where(flood, attack.size, usual.size)
    seconds = np.where(flood, attack.seconds, usual.seconds).round(3)
    names = pc.if_else(pa.array(flood), _attackers(rng), _clients(rng))
    columns = [names, *(pa.array(values) for values in ((packets * size).round(), packets, seconds))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _usual(rng: np.random.Generator) -> _Values:
    """Return ordinary flows: packets heavy-tailed, the more the longer."""
    packets = np.ceil(rng.lognormal(2.0, 1.4, BLOCK))
    return _Values(packets, rng.uniform(80, 1400, BLOCK), 0.05 + packets / rng.lognormal(4.0, 0.8, BLOCK))


def _attack(rng: np.random.Generator, progress: np.ndarray) -> _Values:
    """Return flows of the flood: packets of one size, at a rate that grows."""
    rate = 400.0 * RATE**progress * rng.lognormal(0.0, 0.2, BLOCK)
    seconds = rng.uniform(0.5, 2.0, BLOCK)
    return _Values(np.ceil(rate * seconds), np.full(BLOCK, 64.0), seconds)


def _clients(rng: np.random.Generator) -> pa.Array:
    server = pa.array(SERVERS).take(pa.array(rng.choice(len(SERVERS), BLOCK, p=[0.4, 0.3, 0.1, 0.1, 0.1])))
    third, fourth = rng.integers(0, 256, BLOCK), rng.integers(1, 255, BLOCK)
    return _joined("10.1.", _text(third), ".", _text(fourth), ">", server)


def _attackers(rng: np.random.Generator) -> pa.Array:
    net = pa.array(["203.0.113.", "198.51.100."]).take(pa.array(rng.integers(0, 2, BLOCK)))
    return _joined(net, _text(rng.integers(1, 255, BLOCK)), ">" + VICTIM)


def _text(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _joined(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
