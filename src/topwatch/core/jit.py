"""How kernels are compiled: the only place with compiler options and the notice in the log.

Numba's own cache looks at the file of a function, not at the helpers it imports, and runs stale code after an edit
there. So the cache directory is named after a hash of all sources that hold kernels
(:mod:`topwatch.core.kernel_cache`).

Compilation is tiered, as in a Java virtual machine. A kernel that is called before it is compiled runs as plain Python
(:mod:`topwatch.core.interpreted`), a piece of a batch at a time (:class:`topwatch.core.schedule.Pace`). Another process
compiles it meanwhile (:mod:`topwatch.core.background_compiler`). ``TOPWATCH_COMPILE=first`` waits for compiled kernels.

``fastmath`` is never used: it breaks comparisons with NaN, and fused operations would make scores differ from the
oracle's in the last bit.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numba.core.dispatcher import OmittedArg
from numba.core.registry import CPUDispatcher

from topwatch.core.background_compiler import compiler
from topwatch.core.interpreted import interpreted
from topwatch.core.kernel_cache import KernelCache, kernel_directory, source_of
from topwatch.core.schedule import MOST_INTERPRETED, piece_rows, spend

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = not numba.config.DISABLE_JIT

# A zero with a type: a literal one would compile every function that it is passed to once more.
ZERO = cast(int, np.int64(0))

# To the type of all whole numbers in kernels, from a short one.
long = cast(Callable[[Any], int], np.int64)

logger = logging.getLogger("topwatch")

CACHE_DIRECTORY = kernel_directory() if COMPILED else None

SMALL = 1 << 15  # numbers in the arrays of a call, up to which any kernel is interpreted

BACKGROUND, FIRST = "background", "first"


def kernel(function: F) -> F:
    """Compile a function that Python calls; like all kernels lazily, with the options that stand here."""
    return _compile(function, no_cfunc_wrapper=True)


def entry(function: F) -> F:
    """Compile a function that Python calls and that makes no arrays: a kernel without reference counts."""
    return _compile(function, no_cfunc_wrapper=True, _nrt=False)


def inner(function: F) -> F:
    """Compile a function that only other kernels call: without the wrapper that takes Python's arguments apart."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def leaf(function: F) -> F:
    """Compile an inner function that makes no arrays, without reference counts: they cost more than a row's work."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


def inlined(function: F) -> F:
    """Compile a small leaf into its callers: so a structure of many arrays is not copied for each call."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True)


def stepwise(function: F) -> F:
    """Have a kernel interpreted until it is compiled, however large its arrays are: it takes a piece of a batch."""
    if isinstance(function, Kernel):
        function.stepwise = True
    return function


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A function that is compiled, or loaded from the cache, when it is first needed, and interpreted until then."""

    stepwise = False

    def _compile_for_args(self, *args: Any, **kws: Any) -> Callable[..., Any]:
        """Return what Numba's dispatcher calls for arguments of types that are new to it."""
        if not kws and self._may_be_interpreted(args):
            signature = tuple(
                numba.types.Omitted(one.value) if isinstance(one, OmittedArg) else self.typeof_pyval(one)
                for one in args
            )
            self._types_active_call.clear()
            if not self._cache.holds(signature, self.targetctx) and compiler.request(self, signature):
                return self._interpret
        result: Callable[..., Any] = super()._compile_for_args(*args, **kws)
        return result

    def _may_be_interpreted(self, args: tuple[Any, ...]) -> bool:
        if mode() != BACKGROUND or not isinstance(self._cache, KernelCache):
            return False
        return piece_rows() <= MOST_INTERPRETED if self.stepwise else _numbers(args, SMALL) <= SMALL

    def _interpret(self, *args: Any) -> Any:
        began = perf_counter()
        function = interpreted(self)
        with np.errstate(all="ignore"):  # as machine code does
            result = function(*(one.value if isinstance(one, OmittedArg) else one for one in args))
        spent = perf_counter() - began
        spend(spent)
        compiler.spend(spent)
        return result


def mode() -> str:
    """Return whether kernels are compiled in the background, or first, as where there are no processes of POSIX."""
    wanted = os.environ.get("TOPWATCH_COMPILE", BACKGROUND)
    return BACKGROUND if wanted != FIRST and os.name == "posix" and sys.executable else FIRST


def _numbers(values: Iterable[Any], most: int) -> int:
    """Count the numbers in arrays, also in those of tuples, up to some."""
    count = 0
    for value in values:
        if isinstance(value, np.ndarray):
            count += value.size
        elif isinstance(value, tuple):
            count += _numbers(value, most - count)
        if count > most:
            break
    return count


def _compile(function: F, **more: bool) -> F:
    if not COMPILED:
        return function
    options = {"nopython": True, "error_model": "numpy", "nogil": True, **more}
    compiled = Kernel(function, targetoptions=options)
    source = source_of(function) if CACHE_DIRECTORY is not None else None
    if CACHE_DIRECTORY is not None and source is not None:
        compiled._cache = KernelCache(function, CACHE_DIRECTORY, source)
    return cast(F, compiled)


class _Compiling(event.Listener):  # type: ignore[misc]
    """Logs once per process that kernels are being compiled: the first use takes a while, later ones do not."""

    def __init__(self) -> None:
        self.logged = False

    def on_start(self, occurred: Any) -> None:
        function = occurred.data.get("dispatcher")
        if not self.logged and mode() == FIRST and getattr(function, "__module__", "").startswith("topwatch."):
            self.logged = True
            logger.warning(
                "compiling kernels for this machine: once, up to a minute; later starts take them from a cache"
            )

    def on_end(self, occurred: Any) -> None:
        function = occurred.data.get("dispatcher")
        cache = getattr(function, "_cache", None)
        # Numba's own property for it, is_failed, means the opposite.
        if isinstance(cache, KernelCache) and tuple(occurred.data["args"]) not in function.overloads:
            cache.release()  # it cannot be compiled: others need not wait for it


if COMPILED:
    event.register("numba:compile", _Compiling())
