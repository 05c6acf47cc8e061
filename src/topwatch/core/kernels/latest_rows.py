"""Latest windows: a hash table from integer ids to entities, and the replacing of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.jit import inlined, kernel
from topwatch.core.kernels.scoring import Ints

FREE = -1
NEVER = 2**62


class Entities(NamedTuple):
    """Open addressing with linear probing; ``entity`` is FREE where a slot is empty."""

    id: Ints
    entity: Ints


@inlined
def index_of(table: Entities, key: int) -> int:
    """Return where an id stands, or would."""
    mask = len(table.id) - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    index = int(mixed >> np.uint64(32)) & mask
    while table.entity[index] != FREE and table.id[index] != key:
        index = (index + 1) & mask
    return index


@kernel
def find(table: Entities, ids: Ints, out: Ints) -> None:
    """Look up entities; FREE where an id is unknown."""
    for i in range(len(ids)):
        out[i] = table.entity[index_of(table, ids[i])]


@kernel
def enter(table: Entities, ids: Ints, spare: Ints, spares: int, out: Ints) -> int:
    """Look up entities and give unknown ids one of the spare numbers; return how many spares are left."""
    for i in range(len(ids)):
        index = index_of(table, ids[i])
        if table.entity[index] == FREE:
            spares -= 1
            table.id[index] = ids[i]
            table.entity[index] = spare[spares]
        out[i] = table.entity[index]
    return spares


@kernel
def forget(table: Entities, key: int) -> None:
    """Take an id out; the ids probed after it close the gap."""
    mask = len(table.id) - 1
    gap = index_of(table, key)
    if table.entity[gap] == FREE:
        return
    table.entity[gap] = FREE
    index = (gap + 1) & mask
    while table.entity[index] != FREE:
        entity = table.entity[index]
        table.entity[index] = FREE
        home = index_of(table, table.id[index])
        table.id[home] = table.id[index]
        table.entity[home] = entity
        index = (index + 1) & mask


@kernel
def replace(
    entities: Ints,
    tick: int,
    free: Ints,
    frees: int,
    current: Ints,
    seq: Ints,
    gone: Ints,
    entity: Ints,
    slots: Ints,
    old: Ints,
    old_row: Ints,
) -> int:
    """Give each arriving row a free slot and retire the row it replaces; return how many were replaced."""
    replaced = 0
    for i in range(len(entities)):
        e = entities[i]
        before = current[e]
        frees -= 1
        slot = free[frees]
        slots[i] = slot
        current[e] = slot
        seq[slot] = tick + 1 + i
        gone[slot] = NEVER
        entity[slot] = e
        if before >= 0:
            gone[before] = tick + 1 + i
            old[replaced] = before
            old_row[replaced] = i
            replaced += 1
    return replaced
