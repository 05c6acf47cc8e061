"""Hashes of texts: the same on every machine, in every process and after every restart."""

from __future__ import annotations

import numpy as np

from topwatch.core.jit import kernel
from topwatch.core.kernels.scoring import Ints


@kernel
def hash_texts(offsets: Ints, data: np.ndarray, out: np.ndarray) -> None:
    """Hash bytes ``offsets[i]`` to ``offsets[i + 1]`` for each i, by FNV-1a of 64 bits."""
    for i in range(len(out)):
        value = np.uint64(0xCBF29CE484222325)
        for index in range(offsets[i], offsets[i + 1]):
            value = (value ^ np.uint64(data[index])) * np.uint64(0x100000001B3)
        out[i] = value
