"""The algorithms that the conformance suite runs on: all exact ones of the registry."""

from __future__ import annotations

from sizes import COMPILED

from topwatch.testing.lockstep import exact

# Interpreted, two of TODS'15 are enough to run each kind of skyband and filter but one; cpm and snn are tma and sma.
LEFT_OUT = () if COMPILED else ("sa", "ra", "sasf", "sapf", "rasf", "rarf", "cpm", "snn")

ALGORITHMS = (*(name for name in exact("topk") if name not in LEFT_OUT), "auto")
DOMINATING = (*exact("dominating"), "auto")
INCOMPLETE = exact("incomplete", every_kind=False)  # auto is tally
SKYLINE = exact("skyline")  # auto is witness
