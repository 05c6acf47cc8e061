"""Memory that kernels change in place: records of numbers, moves inside arrays, and prefetching.

Compiled code and Python read and write the numbers of a record by name, where an array would need an index for each.
The name of a record says what it holds: a ``...Position`` where a loop stands in a step, ``...Counts`` what is counted
since the start for ``stats()``, and ``...Scalars`` the single numbers of a structure beside its arrays.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import raw_memmove
from numba.extending import intrinsic

from topwatch.core.interpreted import substitute
from topwatch.core.jit import COMPILED, inlined

PREFETCH_DISTANCE = 8  # rows between asking for memory and using it

R = TypeVar("R")


def record(kind: type[R], **values: float) -> R:
    """Return a record with the fields that a class declares, ``int`` or ``float``; those not given are 0.

    Kernels take it as a part of a NamedTuple, which they cannot return then. What they write to it, Python reads.

    >>> class Progress:
    ...     rows: int
    ...     best: float
    >>> progress = record(Progress, best=0.5)
    >>> progress.rows += 3
    >>> int(progress.rows), float(progress.best)
    (3, 0.5)
    """
    fields = _fields(cast(Any, kind))
    if COMPILED:
        result = np.zeros(1, fields)[0]
    else:  # a NumPy record is forty times as slow as an object in Python
        result = kind()
        for name in fields.names:
            setattr(result, name, fields[name].type(0))
    for name, value in values.items():
        setattr(result, name, fields[name].type(value))
    return cast(R, result)


@cache
def _fields(kind: Any) -> Any:
    kinds = {name: np.float64 if of in ("float", float) else np.int64 for name, of in kind.__annotations__.items()}
    for name in kinds:  # Python would read that attribute, and compiled code the field
        assert not hasattr(np.record, name), f"{name} is an attribute of all records of NumPy"
    return np.dtype((np.record, list(kinds.items())))


def _prefetch(array: np.ndarray, index: int) -> None:
    """Prefetch the memory at an index of an array before it is needed."""


def _move(array: np.ndarray, to: int, start: int, count: int) -> None:
    """Move ``count`` items inside an array; the two ranges may overlap."""
    if count > 0:
        array[to : to + count] = array[start : start + count].copy()


if COMPILED:

    @intrinsic
    def _memmove(typing: Any, array: Any, to: Any, start: Any, count: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            data = context.make_array(kind)(context, builder, arguments[0]).data
            size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
            raw_memmove(
                builder, builder.gep(data, [arguments[1]]), builder.gep(data, [arguments[2]]), arguments[3], size
            )
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64, types.int64), build

    @inlined
    def move(array: np.ndarray, to: int, start: int, count: int) -> None:
        """Move ``count`` items inside an array; the two ranges may overlap."""
        if count > 0:
            _memmove(array, to, start, count)

    @intrinsic
    def prefetch(typing: Any, array: Any, index: Any) -> Any:
        """Prefetch the memory at an index of an array before it is needed."""

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
            kind = ir.FunctionType(ir.VoidType(), [pointer.type, *[ir.IntType(32)] * 3])
            function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
            builder.call(function, [pointer, *(ir.Constant(ir.IntType(32), n) for n in (1, 3, 1))])
            return context.get_dummy_value()

        return types.void(array, types.int64), build

    substitute(prefetch, _prefetch)
    substitute(move, _move)
else:
    prefetch, move = _prefetch, _move
