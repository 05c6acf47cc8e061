"""Kernels as plain Python: the functions that they were compiled from, calling each other in place of machine code.

A kernel's source is valid Python and does the same, to the last bit, as the conformance suite with the compiler off
shows. Interpreted and compiled code read and write the same arrays and records, so that one can go on where the other
has left off, at any call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

# By the id of something that compiled code calls: it, so that no other object gets its id, and what does the same in
# Python.
_substitutes: dict[int, tuple[Any, Callable[..., Any]]] = {}
_globals: dict[str, dict[str, Any]] = {}  # of modules, by name


def substitute(compiled: Any, function: Callable[..., Any]) -> None:
    """Let a function take the place of an intrinsic, or of a kernel whose loops are slow without a compiler."""
    if not isinstance(compiled, FunctionType):  # with the compiler off, what kernels say is what is tested
        _substitutes[id(compiled)] = compiled, function


def interpreted(kernel: Any) -> Callable[..., Any]:
    """Return a kernel as plain Python."""
    known = _substitutes.get(id(kernel))
    if known is not None:
        return known[1]
    source = kernel.py_func
    namespace = _namespace(source.__module__)
    function = FunctionType(source.__code__, namespace, source.__name__, source.__defaults__, source.__closure__)
    _substitutes[id(kernel)] = kernel, function
    return function


def _namespace(module: str) -> dict[str, Any]:
    """Return the names of a module, with interpreted kernels in the place of compiled ones."""
    known = _globals.get(module)
    if known is None:
        known = _globals[module] = dict(vars(sys.modules[module]))
        for name, value in list(known.items()):
            if id(value) in _substitutes or is_kernel(value):
                known[name] = interpreted(value)
            elif isinstance(value, ModuleType) and any(map(is_kernel, vars(value).values())):
                known[name] = _Interpreted(value.__name__)
    return known


class _Interpreted:
    """A module whose kernels are interpreted, for code that says ``module.kernel``."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _namespace(self._module)[name]


def is_kernel(value: Any) -> bool:
    """Return whether a value is a kernel, which has the function that it was compiled from."""
    return isinstance(getattr(value, "py_func", None), FunctionType)
