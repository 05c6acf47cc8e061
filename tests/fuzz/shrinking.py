"""Smaller cases that fail in the same way: parts are left out as long as that goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tests.fuzz.cases import Case, Outcome, Target

MOST_SECONDS = 90.0


def minimal(
    target: Target, case: Case, outcome: Outcome, run: Callable[[Case], Outcome], seconds: float = MOST_SECONDS
) -> tuple[Case, Outcome]:
    """Return the smallest case that was found within the time, and how it fails."""
    end = time.monotonic() + seconds
    result = True
    while result:
        result = False
        for smaller in _candidates(target, case):
            if time.monotonic() > end:
                return case, outcome
            again = run(smaller)
            if again.kind == outcome.kind:
                case, outcome, result = smaller, again, True
                break
    return case, outcome


def _candidates(target: Target, case: Case) -> Iterator[Case]:
    """Without the last half of its steps, the first half, quarters ... single steps; then in the target's own way."""
    steps = case.get("steps", [])
    size = len(steps)
    while size := size // 2 if size > 1 else 0:
        for start in range(len(steps) - size, -size, -size):
            kept = steps[: max(0, start)] + steps[start + size :]
            yield {**case, "steps": kept}
    if len(steps) == 1:
        yield {**case, "steps": []}
    yield from target.simpler(case)
