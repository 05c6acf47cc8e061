"""Expressions: written by a grammar and evaluated a second time here; then with signs changed, and only refused."""

from __future__ import annotations

import ast

import numpy as np

import topwatch as tw
from tests.fuzz.cases import Case, Target
from tests.fuzz.random_queries import COMMON, ODD, pick
from topwatch.testing.oracle_scores import Score, score_rows

NAMES = ["a", "b", "c", "_x", "bytes", "é", "größe"]
NUMBERS = f"0 1 2 0.5 1e3 1e-3 .5 5. 1_000 0x10 0b11 1e308 1e400 {'9' * 30} 00 1j 007".split()
WORDS = ["**", "//", "==", " if ", " and ", "lambda", "\x00", "\ud800", "\N{MATHEMATICAL SCRIPT CAPITAL X}"]
SIGNS = [*"+-*/()%<>=!&|^~@.,:;[]{}'\"\\ \t\n#$?_0aé", *WORDS]
LONG = [
    "(" * 300 + "a" + ")" * 300,
    "-" * 1999 + "a",
    "a" + "+a" * 999,
    "a" * 2001,
    "a**" * 70 + "a",
    "f(" * 150 + "a" + ")" * 150,
    "a." * 990 + "a",
]
ROWS = 5


def make(rng: np.random.Generator) -> Case:
    text = _written(rng, int(rng.integers(1, 6)))
    signs = list(text)
    changed = rng.random() < 0.5
    for _ in range(int(rng.geometric(0.5)) if changed else 0):
        index = int(rng.integers(0, len(signs) + 1))
        signs[index : index + int(rng.integers(0, 3))] = [pick(rng, SIGNS)] if rng.random() < 0.7 else []
    if rng.random() < 0.02:
        signs = list(pick(rng, LONG))
    columns = {name: [float(pick(rng, COMMON if rng.random() < 0.7 else ODD)) for _ in range(ROWS)] for name in NAMES}
    return {"steps": signs, "columns": columns}


def _written(rng: np.random.Generator, depth: int) -> str:
    space = pick(rng, ["", "", " ", "  "])
    if depth == 0 or rng.random() < 0.2:
        return pick(rng, NAMES if rng.random() < 0.7 else NUMBERS)
    kind = rng.random()
    if kind < 0.15:
        return f"{pick(rng, ['-', '+', '- ', '--'])}{_written(rng, depth - 1)}"
    if kind < 0.35:
        return f"({space}{_written(rng, depth - 1)}{space})"
    sign = pick(rng, ["+", "-", "*", "/", "+", "-", "*", "/", "**"])
    return f"{_written(rng, depth - 1)}{space}{sign}{space}{_written(rng, depth - 1)}"


def run(case: Case) -> None:
    text = "".join(case["steps"])
    try:
        score = tw.expr(text)
    except tw.QueryError as error:
        message = str(error)
        if _is_arithmetic(text):
            raise AssertionError(f"{text!r} is refused: {message}") from None
        return
    assert _is_arithmetic(text), f"{text!r} is accepted"
    columns = {name: np.array(values) for name, values in case["columns"].items()}
    columns |= {name: np.zeros(ROWS) for name in score.columns if name not in columns}
    wanted = score_rows(Score("expr", text=text.strip()), {name: columns[name] for name in score.columns})
    wanted[np.any([np.isnan(columns[name]) for name in score.columns], axis=0)] = np.nan
    got = score.evaluate(columns)
    assert np.array_equal(got, wanted, equal_nan=True), f"{text!r}: {got} instead of {wanted}"
    _check_kernel(score, columns, wanted)


def _check_kernel(score: tw.Score, columns: dict[str, np.ndarray], wanted: np.ndarray) -> None:
    """The kernels' scores are the same; a power may differ in its last bits, since each library has its own."""
    monitor = tw.Monitor(tw.TopK(k=ROWS, score=score), window=tw.last(ROWS), id=None, algorithm="scan")
    monitor.push({name: columns[name] for name in score.columns})
    got = {entry.id: entry.score for entry in monitor.answer()}
    ranked = {row + 1: value for row, value in enumerate(wanted.tolist()) if value == value}
    assert got.keys() == ranked.keys(), f"{score}: rows {sorted(got)} are ranked instead of {sorted(ranked)}"
    for row, value in ranked.items():
        near = "**" in str(score) and np.isclose(got[row], value, rtol=1e-12, atol=0.0)
        assert got[row] == value or near, f"{score}: {got[row]!r} instead of {value!r}"


def _is_arithmetic(text: str) -> bool:
    """Whether Python's own parser finds nothing but arithmetic with at least one name in it."""
    if len(text) > 2000:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return _depth(tree.body) <= 64 and any(isinstance(node, ast.Name) for node in ast.walk(tree))


def _depth(node: ast.expr, above: int = 0) -> float:
    """Levels of arithmetic; infinite where there is anything else, or too many."""
    if above > 64:
        return np.inf
    if isinstance(node, ast.Name):
        return 0
    if isinstance(node, ast.Constant):
        if type(node.value) not in (int, float):
            return np.inf
        with np.errstate(all="ignore"):
            return 0 if abs(node.value) <= 1.7976931348623157e308 else np.inf
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        return 1 + _depth(node.operand, above + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow):
        return 1 + max(_depth(node.left, above + 1), _depth(node.right, above + 1))
    return np.inf


TARGET = Target("expressions", make, run, short=100)
