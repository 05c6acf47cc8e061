"""How large the random tests are, with the kernels compiled and with the compiler off."""

from __future__ import annotations

import os
from dataclasses import dataclass

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "1"


@dataclass(frozen=True)
class Scale:
    """Rows in a stream, rows in a window, queries in a monitor."""

    rows: int
    window: int
    queries: int


SCALE = Scale(600, 90, 12) if COMPILED else Scale(110, 24, 6)
