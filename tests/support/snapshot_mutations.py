"""Snapshots that are damaged, and snapshots that are forged: what `Monitor.restore` must refuse or make the best of.

`mutated(blob, rng)` returns one mutation of the bytes of a snapshot, `use(blob)` restores it and works with what comes
out. Both may be called from anywhere; this file knows the layout of a snapshot, and nothing else of the package:

    magic (8) | version (4) | length of the header (4) | header, JSON | arrays, one behind the other | CRC-32 (4)

As a program it tries mutations in a process of its own, so that a crash in a kernel is seen:

    python -m tests.support.snapshot_mutations BLOB [--count 300] [--seed 0] [--rows 300]

It prints what came out, one line a mutation, the mutation's number first; an exception of another type than `DataError`
ends it with status 1, and a hang or a dead process is for the caller to see.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_START = 16
_TYPES = ("<f8", "<i8", "<u8", "|b1", "|u1", "<f4", "|O8", "<U9", "<M8[ns]", ">i8")
_NUMBERS = (0, 1, -1, 2, 7, 2**31, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30)
_ODD: tuple[Any, ...] = (None, True, "", "x", "auto", 1.5, 1e308, float("nan"), float("inf"), [], [1], {}, {"x": 1})

Header = dict[str, Any]
Arrays = list[tuple[str, str, list[int], bytes]]


def mutated(blob: bytes, rng: np.random.Generator) -> bytes:
    """Return a mutation: half of them are damage, half have a header or an array changed and a checksum that fits."""
    if rng.random() < 0.3:
        return _pick(rng, (_flipped, _cut, _extended, _spliced))(blob, rng)
    header, arrays = _taken_apart(blob)
    names = [name for name, *_ in arrays]
    if "windows monitors" in names and rng.random() < 0.7:
        return _put_together(header, _change_monitor(arrays, names.index("windows monitors"), rng))
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        change = _pick(rng, (_change_header, _change_array, _change_array, _change_array, _change_list))
        header, arrays = change(header, arrays, rng)
    return _put_together(header, arrays)


def forged(blob: bytes, header: Callable[[Header], None] | None = None, **arrays: np.ndarray) -> bytes:
    """Return a snapshot with a changed header and other arrays, and a checksum that fits; spaces in names are `_`."""
    head, parts = _taken_apart(blob)
    if header is not None:
        header(head["state"])
    named = {name.replace(" ", "_"): i for i, (name, *_) in enumerate(parts)}
    for name, array in arrays.items():
        parts[named[name]] = (parts[named[name]][0], array.dtype.str, list(array.shape), array.tobytes())
    return _put_together(head, parts)


def arrays_of(blob: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of a snapshot."""
    return {name: np.frombuffer(data, dtype).reshape(shape) for name, dtype, shape, data in _taken_apart(blob)[1]}


def use(blob: bytes, rows: int = 300) -> str:
    """Restore a snapshot and work on with it; return why it was refused, or nothing."""
    import topwatch as tw
    from topwatch.algorithms.registry import algorithms

    try:
        monitor = tw.Monitor.restore(blob)
    except tw.DataError as error:
        return str(error)
    monitor._check()
    for part in range(3):
        batch = _batch(monitor, rows // 3, part)
        try:
            monitor.push(batch)
        except tw.DataError as error:  # columns or ids that this batch has not: what every monitor says of it
            if not str(error).startswith("batch: "):
                raise
            break
        monitor._check()
    _look(monitor)
    again = tw.Monitor.restore(monitor.snapshot())
    assert repr(_answers(again)) == repr(_answers(monitor)), "a restored answer is another one"
    for one in (again, monitor):
        _change(one)
        one._check()
        _look(one)
    known = algorithms().get(monitor.settings.algorithm)
    if (known is None or known.exact) and monitor.settings.max_lag is None:  # what others have seen is not saved
        assert repr(_answers(again)) == repr(_answers(monitor)), "answers after a restore are others"
    return ""


def _look(monitor: Any) -> None:
    """Ask for all that can be asked for."""
    for query in monitor.queries:
        for group in monitor.groups if monitor.settings.by else [None]:
            of = {"by": group} if monitor.settings.by else {}
            answer = monitor.answer(query.name, **of)
            monitor.why(answer[0].id if answer else 1, query.name, **of)
    monitor.stats()
    monitor.explain()


def _answers(monitor: Any) -> Any:
    every = monitor.answers if monitor.settings.by else monitor.answer
    return {query.name: every(query.name) for query in monitor.queries}


def _change(monitor: Any) -> None:
    """Let time pass and queries come and go, as far as the monitor is one that can do so."""
    import topwatch as tw

    ingest = monitor._ingest
    if monitor.settings.watermark and ingest.time_kind == "timestamps":
        monitor.release(2**62)
    elif ingest.now is not None and abs(ingest.now) < 2**62:
        now = ingest.now + 1
        monitor.advance(np.datetime64(now, "ns") if ingest.time_kind == "timestamps" else now)
    numeric = [name for name in ingest.columns if name not in ingest.words]
    with contextlib.suppress(tw.QueryError, tw.PlanError):  # as a named algorithm does
        monitor.add(tw.TopK(k=2, score=tw.linear(dict.fromkeys(numeric[:1], 1.0)), name="one more"))
        monitor.remove(monitor.queries[0].name)


def _batch(monitor: Any, rows: int, seed: int) -> dict[str, Any]:
    """Return rows that fit a monitor, as far as that can be seen from outside."""
    rng = np.random.default_rng(seed)
    ingest = monitor._ingest
    columns: dict[str, Any] = {name: rng.integers(0, 9, rows).astype(float) for name in ingest.columns}
    for source, words in ingest.words.values():
        columns[source] = rng.choice(np.array(words), rows)
    if ingest.id is not None:
        names = rng.integers(0, 60, rows)
        columns[ingest.id] = names if ingest.id_kind != "string" else [f"id {name}" for name in names]
        if ingest.id_kind in ("uint64", "float64"):
            columns[ingest.id] = names.astype(ingest.id_kind)
    if ingest.time is not None:
        now = 0 if ingest.now is None else min(max(ingest.now, -(2**62)), 2**62)
        times = now + np.arange(rows)
        columns[ingest.time] = times.astype("M8[ns]") if ingest.time_kind == "timestamps" else times
    for name in ingest.order:
        columns[name] = [f"order {i}" for i in rng.integers(0, 9, rows)]
    for name, known in zip(ingest.by, (ingest.by and monitor._keys.columns) or [None] * len(ingest.by), strict=True):
        new = rng.integers(0, 3, rows)
        columns[name] = new if known is None or not len(known) else known.take(new % len(known))
    return columns


def use_server(blob: bytes) -> str:
    """Restore a server of many devices and let it work; return why it was refused, or nothing."""
    import topwatch as tw
    from topwatch.edge.mqtt.connection import encode_tick
    from topwatch.edge.protocol import Server
    from topwatch.edge.protocol.messages import Join

    try:
        server = Server.restore(blob)
    except tw.DataError as error:
        return str(error)
    for _ in range(2):
        server.begin(server.tick + 1)
        encode_tick(1, server.tick)
        for name in ("a", *filter(None, server._ids[:2])):
            server.receive(Join(name, server.tick, 0, (1.0,) * len(server.prefer)))
        for message in (*server.ask(), *server.drop_silent(), *server.finish()):
            message.encode()
        server = Server.restore(server.snapshot())
    return ""


# ---- damage


def _flipped(blob: bytes, rng: np.random.Generator) -> bytes:
    out = bytearray(blob)
    for index in rng.integers(0, len(out), int(rng.integers(1, 4))):
        out[index] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _cut(blob: bytes, rng: np.random.Generator) -> bytes:
    return blob[: int(rng.integers(len(blob)))]


def _extended(blob: bytes, rng: np.random.Generator) -> bytes:
    return blob + rng.bytes(int(rng.integers(1, 64)))


def _spliced(blob: bytes, rng: np.random.Generator) -> bytes:
    """Take a piece out or in, with a checksum that fits what is left."""
    index, size = (int(x) for x in rng.integers(0, len(blob), 2))
    body = blob[:index] + (blob[index : index + size % 40] * int(rng.choice([0, 2]))) + blob[index + size % 40 :]
    return body[:-4] + struct.pack("<I", zlib.crc32(body[:-4]))


# ---- forgery


def _taken_apart(blob: bytes) -> tuple[Header, Arrays]:
    (length,) = struct.unpack_from("<I", blob, 12)
    header = json.loads(blob[_START : _START + length])
    index, arrays = _START + length, []
    for name, dtype, shape in header["arrays"]:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        arrays.append((name, dtype, shape, blob[index : index + size]))
        index += size
    version = blob[8:12]
    return {"version": version, **header}, arrays


def _put_together(header: Header, arrays: Arrays) -> bytes:
    described = [(name, dtype, shape) for name, dtype, shape, _ in arrays]
    head = json.dumps({"state": header["state"], "arrays": described}).encode()
    body = b"topwatch" + header["version"] + struct.pack("<I", len(head)) + head + b"".join(a[3] for a in arrays)
    return body + struct.pack("<I", zlib.crc32(body))


def _change_header(header: Header, arrays: Arrays, rng: np.random.Generator) -> tuple[Header, Arrays]:
    """Change, remove or add a field somewhere in the header."""
    header = copy.deepcopy(header)
    indices = list(_indices(header["state"]))
    holder, key = indices[int(rng.integers(len(indices)))]
    how = rng.random()
    if how < 0.15:
        del holder[key]
    elif how < 0.2 and isinstance(holder, dict):
        holder["odd"] = _odd(rng)
    elif how < 0.3:
        holder[key] = copy.deepcopy(_pick(rng, [h[k] for h, k in indices]))
    elif how < 0.4 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif isinstance(holder[key], int | float) and how < 0.8:
        holder[key] = holder[key] + _pick(rng, (1, -1, 2, -2, 16, 1000))
    else:
        holder[key] = _odd(rng)
    return header, arrays


def _indices(value: Any) -> Any:
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _indices(value[key])


def _change_monitor(arrays: Arrays, i: int, rng: np.random.Generator) -> Arrays:
    """Change the snapshot of one group's monitor; the sizes of all, which come next, fit again."""
    whole, sizes = arrays[i][3], np.frombuffer(arrays[i + 1][3], np.int64).copy()
    if not sizes.size:
        return arrays
    number = int(rng.integers(sizes.size))
    start, end = int(sizes[:number].sum()), int(sizes[: number + 1].sum())
    changed = mutated(whole[start:end], rng)
    sizes[number] = len(changed)
    whole = whole[:start] + changed + whole[end:]
    parts = [(*arrays[i][:2], [len(whole)], whole), (*arrays[i + 1][:3], sizes.tobytes())]
    return [*arrays[:i], *parts, *arrays[i + 2 :]]


def _change_list(header: Header, arrays: Arrays, rng: np.random.Generator) -> tuple[Header, Arrays]:
    """Change the list of arrays: one is missing, there twice, of another name, type or shape."""
    arrays = list(arrays)
    if not arrays:
        return header, arrays
    i = int(rng.integers(len(arrays)))
    name, dtype, shape, data = arrays[i]
    how = int(rng.integers(6))
    if how == 0:
        del arrays[i]
    elif how == 1:
        arrays.append((_pick(rng, (name, name + " more")), dtype, shape, data))
    elif how == 2:
        arrays[i] = (_pick(rng, arrays)[0], dtype, shape, data)
    elif how == 3:
        arrays[i] = (name, _pick(rng, _TYPES), shape, data)
    elif how == 4:
        odd = _pick(rng, ([-1], [2**40], [2**62, 4], [0, 2**62], [], [1, 1, 1], None, ["x"], [1.5]))
        arrays[i] = (name, dtype, odd, data)
    else:
        j = int(rng.integers(len(arrays)))
        arrays[i] = (name, *arrays[j][1:])
    return header, arrays


def _change_array(header: Header, arrays: Arrays, rng: np.random.Generator) -> tuple[Header, Arrays]:
    """Change some values of an array, or its length, so that it still fits its description."""
    arrays = list(arrays)
    if not arrays:
        return header, arrays
    i = int(rng.integers(len(arrays)))
    name, dtype, shape, data = arrays[i]
    try:
        array = np.frombuffer(data, dtype).reshape(shape).copy()
    except (TypeError, ValueError):  # changed before
        return header, arrays
    how = rng.random()
    if how < 0.25:
        array = _resized(array, rng)
    elif array.size:
        flat = array.reshape(-1)
        index, other = (int(x) for x in rng.integers(0, flat.size, 2))
        if how < 0.4:
            flat[index], flat[other] = flat[other], flat[index]
        elif how < 0.5:
            flat[index] = flat[other]
        elif how < 0.55:
            array = array[..., ::-1].copy()
        else:
            _change_value(flat, index, rng)
    arrays[i] = (name, array.dtype.str, list(array.shape), np.ascontiguousarray(array).tobytes())
    return header, arrays


def _resized(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    axis = int(rng.integers(array.ndim))
    size = array.shape[axis]
    how = int(rng.integers(4))
    if how == 0 and size:
        return np.delete(array, int(rng.integers(size)), axis)
    if how == 1 and size:
        return np.concatenate([array, np.take(array, [int(rng.integers(size))], axis)], axis)
    if how == 2:
        return np.take(array, np.arange(size // 2), axis)
    with np.errstate(invalid="ignore"):  # NaN as a whole number
        return array.astype(_pick(rng, ("<f8", "<i8", "|u1"))) if how == 3 else array.reshape(1, -1)


def _change_value(flat: np.ndarray, index: int, rng: np.random.Generator) -> None:
    if flat.dtype.kind == "f":
        odd = (
            np.nan,
            np.inf,
            -np.inf,
            0.0,
            -0.0,
            -1.0,
            1e308,
            -1e300,
            0.5,
            flat[index] + 1,
            np.nextafter(flat[index], 9),
        )
        flat[index] = _pick(rng, odd)
    elif flat.dtype.kind in "iu" and flat.dtype.itemsize == 8:
        with np.errstate(over="ignore"):
            near = flat[index] + np.array(rng.integers(-2, 3)).astype(flat.dtype)
        far = _pick(rng, _NUMBERS) % 2**64
        flat[index] = near if rng.random() < 0.5 else np.array([far], np.uint64).view(flat.dtype)[0]
    else:
        flat.view(np.uint8)[index] = int(rng.integers(256))


def _odd(rng: np.random.Generator) -> Any:
    return _pick(rng, (*_NUMBERS, *_ODD))


def _pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("blob", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=300)
    given = parser.parse_args()
    for path in given.blob:
        blob = path.read_bytes()
        for number in range(given.count):
            # Said before, so that the last line names the mutation with which a process died.
            print(path.stem, number, end=" ", flush=True)
            rng = np.random.default_rng([given.seed, zlib.crc32(path.stem.encode()), number])
            print(use(mutated(blob, rng), given.rows).replace("\n", " ") or "accepted", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
