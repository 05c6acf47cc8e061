"""How kernels are compiled: the only place with compiler options and the notice in the log.

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
from numba.core import event

from topwatch.core.kernel_cache import KernelCache, kernel_directory, source_of

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = not numba.config.DISABLE_JIT

# A zero with a type: a literal one would compile every function that it is passed to once more.
ZERO = cast(int, np.int64(0))

# To the type of all whole numbers in kernels, from a short one.
long = cast(Callable[[Any], int], np.int64)

logger = logging.getLogger("topwatch")

CACHE_DIRECTORY = kernel_directory() if COMPILED else None


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


def _compile(function: F, **more: bool) -> F:
    if not COMPILED:
        return function
    compiled = numba.njit(error_model="numpy", nogil=True, **more)(function)
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
        if not self.logged and getattr(function, "__module__", "").startswith("topwatch."):
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
