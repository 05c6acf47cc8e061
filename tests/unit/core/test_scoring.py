"""Kernels score as queries are parsed."""

from __future__ import annotations

import pytest

from topwatch.core.kernels import scoring
from topwatch.query import expressions


@pytest.mark.parametrize("name", ["CONST", "COLUMN", "ADD", "SUB", "MUL", "DIV", "POW", "NEG"])
def test_opcodes_agree(name: str) -> None:
    assert getattr(scoring, name) == getattr(expressions, name)


def test_the_stack_holds_the_deepest_expression() -> None:
    assert scoring.STACK > expressions.MAX_DEPTH
