"""Kernels that are interpreted in one call and compiled in the next, at random: as when one tier takes over."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from topwatch.core.interpreted import interpreted, is_kernel


class Either:
    """A kernel in both tiers.

    ``counts`` has how often it was interpreted, and how often it was compiled.
    """

    def __init__(self, kernel: Any, rng: np.random.Generator, counts: list[int]) -> None:
        self.kernel, self.rng, self.counts = kernel, rng, counts

    def __call__(self, *args: Any) -> Any:
        choice = int(self.rng.integers(2))
        self.counts[choice] += 1
        if choice:
            return self.kernel(*args)
        with np.errstate(all="ignore"):
            return interpreted(self.kernel)(*args)


@contextmanager
def alternating(rng: np.random.Generator) -> Iterator[list[int]]:
    """Have the kernels alternate that loaded modules call; yield how often each tier was taken."""
    counts = [0, 0]
    patches = []
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("topwatch.") or ".kernels" in module_name:
            continue
        for name, value in list(vars(module).items()):
            if is_kernel(value) and not value.targetoptions.get("no_cpython_wrapper"):
                patches.append(patch.object(module, name, Either(value, rng, counts)))
    for one in patches:
        one.start()
    try:
        yield counts
    finally:
        for one in patches:
            one.stop()
