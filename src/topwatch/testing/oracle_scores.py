"""The oracle's scores: term by term, from left to right, in the order of writing, in double precision."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Score:
    """`terms` are (column, weight) pairs, for a distance (column, coordinate) pairs; `text` is for expressions."""

    kind: str  # linear, product, quadratic, distance, expr
    terms: tuple[tuple[str, float], ...] = ()
    text: str = ""
    increasing: tuple[str, ...] = ()
    decreasing: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, in order."""
        if self.kind == "expr":
            names = [node.id for node in ast.walk(ast.parse(self.text, mode="eval")) if isinstance(node, ast.Name)]
            return tuple(dict.fromkeys(names))
        return tuple(column for column, _ in self.terms)

    @property
    def smaller_is_better(self) -> bool:
        """True for a distance."""
        return self.kind == "distance"


def as_float(values: Any) -> np.ndarray:
    """A column as doubles, a null as NaN."""
    values = np.asarray(values)
    if values.dtype == object:
        values = np.array([np.nan if value is None else float(value) for value in values], dtype=float)
    return np.asarray(values, np.float64)


def score_rows(score: Score, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """The score of each row, evaluated term by term, from left to right, in the order of writing."""
    with np.errstate(all="ignore"):
        if score.kind == "expr":
            size = len(next(iter(columns.values())))
            return np.broadcast_to(_evaluate(ast.parse(score.text, mode="eval").body, columns), (size,)).copy()
        total: Any = None
        for column, weight in score.terms:
            x = columns[column]
            if score.kind == "linear":
                term = weight * x
            elif score.kind == "product":
                term = weight + x
            elif score.kind == "quadratic":
                term = weight * (x * x)
            else:
                term = (x - weight) * (x - weight)
            if total is None:
                total = term
            elif score.kind == "product":
                total = total * term
            else:
                total = total + term
        return np.asarray(np.sqrt(total) if score.kind == "distance" else total)


def _power(base: float, exponent: float) -> float:
    """C's pow; where Python raises an error it is infinite or no number."""
    try:
        return math.pow(base, exponent)
    except (ValueError, OverflowError):
        return float(np.power(np.float64(base), np.float64(exponent)))


def _evaluate(node: ast.expr, columns: Mapping[str, np.ndarray]) -> Any:
    if isinstance(node, ast.Constant):
        # One for each row: NumPy takes a shortcut for some single exponents, whose last bit may be another.
        return np.full(len(next(iter(columns.values()))), np.float64(float(node.value)))  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return columns[node.id]
    if isinstance(node, ast.UnaryOp):
        operand = _evaluate(node.operand, columns)
        return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, columns), _evaluate(node.right, columns)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return np.divide(left, right)
            case ast.Pow():
                return np.vectorize(_power, otypes=[float])(left, right)
    raise ValueError(f"the oracle cannot evaluate {ast.dump(node)}")
