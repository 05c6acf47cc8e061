"""How kernels are compiled: the options and the notice stand here and nowhere else.

Numba's own cache looks at the file of a function, not at the helpers it imports, and runs stale code after an edit
there. So the cache directory is named after a hash of all sources that hold kernels
(:mod:`topwatch.core.kernel_cache`).

``fastmath`` is never used: it breaks comparisons with NaN, and fused operations would make scores differ from the
oracle's in the last bit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import event, types
from numba.core.cgutils import raw_memmove
from numba.extending import intrinsic

from topwatch.core.kernel_cache import KernelCache, kernel_directory

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = not numba.config.DISABLE_JIT

# A zero with a type: a literal one would compile every function that it is passed to once more.
ZERO = cast(int, np.int64(0))

# To the type of all whole numbers in kernels, from a short one.
long = cast(Callable[[Any], int], np.int64)

PREFETCH_DISTANCE = 8  # rows between asking for memory and using it

logger = logging.getLogger("topwatch")

CACHE_DIRECTORY = kernel_directory() if COMPILED else None


def kernel(function: F) -> F:
    """Compile a function that Python calls; like all kernels lazily, with the options that stand here."""
    return _compile(function)


def inner(function: F) -> F:
    """Compile a function that only other kernels call: without the wrapper that takes Python's arguments apart."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def leaf(function: F) -> F:
    """Compile an inner function that makes no arrays, without reference counts: they cost more than a row's work."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


def inlined(function: F) -> F:
    """Compile a small leaf into its callers: a structure of many arrays is not copied for each call then."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True)


def _compile(function: F, **more: bool) -> F:
    if not COMPILED:
        return function
    compiled = numba.njit(error_model="numpy", nogil=True, **more)(function)
    if CACHE_DIRECTORY is not None:
        compiled._cache = KernelCache(function, CACHE_DIRECTORY)
    return cast(F, compiled)


class _Compiling(event.Listener):  # type: ignore[misc]
    """Logs once per process that kernels are being compiled: the first use takes a while, later ones do not."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, occurred: Any) -> None:
        function = occurred.data.get("dispatcher")
        if not self.said and getattr(function, "__module__", "").startswith("topwatch."):
            self.said = True
            logger.warning(
                "compiling kernels for this machine: once, up to a minute; later starts take them from a cache"
            )

    def on_end(self, occurred: Any) -> None:
        function = occurred.data.get("dispatcher")
        cache = getattr(function, "_cache", None)
        # Numba's own word for it, is_failed, says the opposite.
        if isinstance(cache, KernelCache) and tuple(occurred.data["args"]) not in function.overloads:
            cache.release()  # it cannot be compiled: others need not wait for it


if COMPILED:
    event.register("numba:compile", _Compiling())

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

else:

    def prefetch(array: np.ndarray, index: int) -> None:
        """Prefetch the memory at an index of an array before it is needed."""

    def move(array: np.ndarray, to: int, start: int, count: int) -> None:
        """Move ``count`` items inside an array; the two ranges may overlap."""
        if count > 0:
            array[to : to + count] = array[start : start + count].copy()
