"""The algorithms that the conformance suite runs on: all exact ones of the registry."""

from __future__ import annotations

from tests.support.sizes import COMPILED
from topwatch.algorithms.registry import algorithms


def exact(family: str, every_kind: bool = True) -> tuple[str, ...]:
    """Return the exact algorithms of a family, and those that serve every kind of query."""
    return tuple(
        name
        for name, entry in algorithms().items()
        if entry.exact and (entry.family == family or (every_kind and not entry.family))
    )


# Interpreted, two of TODS'15 are enough to run each kind of skyband and filter but one; cpm and snn are tma and sma.
LEFT_OUT = () if COMPILED else ("sa", "ra", "sasf", "sapf", "rasf", "rarf", "cpm", "snn")

ALGORITHMS = (*(name for name in exact("topk") if name not in LEFT_OUT), "auto")
DOMINATING = (*exact("dominating"), "auto")
INCOMPLETE = exact("incomplete", every_kind=False)  # auto is tally
SKYLINE = exact("skyline")  # auto is witness
