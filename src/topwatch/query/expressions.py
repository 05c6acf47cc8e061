"""Safe arithmetic over columns: an expression is parsed into a postfix program, never evaluated as Python.

Accepted are numbers, column names, ``+ - * / **``, signs and parentheses.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass

from topwatch.query.errors import QueryError

ACCEPTED = "numbers, column names, + - * / ** and parentheses"
MAX_LENGTH = 2000
MAX_DEPTH = 64

# Opcodes of the postfix program. The kernels know the same numbers (``tests/unit/core/test_scoring.py``).
CONST, COLUMN, ADD, SUB, MUL, DIV, POW, NEG = range(8)

_BINARY: dict[type[ast.operator], int] = {ast.Add: ADD, ast.Sub: SUB, ast.Mult: MUL, ast.Div: DIV, ast.Pow: POW}


@dataclass(frozen=True)
class Expression:
    """A parsed expression.

    Attributes
    ----------
    text : str
        What the user wrote.
    columns : tuple of str
        The columns it reads, in the order of their first appearance.
    program : tuple of (int, float)
        Postfix code: opcode and argument (a constant, or an index into ``columns``).

    Examples
    --------
    >>> parse("bytes / (1 + seconds)").columns
    ('bytes', 'seconds')
    """

    text: str
    columns: tuple[str, ...]
    program: tuple[tuple[int, float], ...]


def parse(text: str) -> Expression:
    """Parse arithmetic over columns; anything else is refused with the part that is not accepted.

    >>> parse("max(bytes)")
    Traceback (most recent call last):
    ...
    topwatch.QueryError: expr: 'max(bytes)' is a call; accepted are numbers, column names, ...
    """
    if not isinstance(text, str) or not text.strip():
        raise QueryError(f"expr: expected an expression such as 'bytes / (1 + seconds)', got {text!r}")
    if len(text) > MAX_LENGTH:
        raise QueryError(f"expr: the expression has {len(text)} characters; at most {MAX_LENGTH} are accepted")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        detail = error.msg if isinstance(error, SyntaxError) else "too deeply nested"
        raise QueryError(f"expr: {text!r} cannot be parsed ({detail}); accepted are {ACCEPTED}") from None
    columns: dict[str, int] = {}
    program: list[tuple[int, float]] = []
    _emit(tree.body, columns, program, depth=0)
    if not columns:
        raise QueryError(f"expr: {text!r} names no column; at least one is needed")
    return Expression(text.strip(), tuple(columns), tuple(program))


def _emit(node: ast.expr, columns: dict[str, int], program: list[tuple[int, float]], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise QueryError(f"expr: nested more than {MAX_DEPTH} levels deep; write it with fewer parentheses")
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and math.isfinite(_as_float(node.value)):
        program.append((CONST, _as_float(node.value)))
    elif isinstance(node, ast.Name):
        program.append((COLUMN, float(columns.setdefault(node.id, len(columns)))))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        _emit(node.operand, columns, program, depth + 1)
        if isinstance(node.op, ast.USub):
            program.append((NEG, 0.0))
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        _emit(node.left, columns, program, depth + 1)
        _emit(node.right, columns, program, depth + 1)
        program.append((_BINARY[type(node.op)], 0.0))
    else:
        raise QueryError(f"expr: {_name(node)}; accepted are {ACCEPTED}")


def _as_float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf


def _name(node: ast.expr) -> str:
    try:
        source = ast.unparse(node)
    except RecursionError:
        source = "..."
    if len(source) > 40:
        source = source[:37] + "..."
    if isinstance(node, ast.Call):
        return f"{source!r} is a call"
    if isinstance(node, ast.Attribute):
        return f"{source!r} is an attribute (use linear({{...}}) for column names with a dot)"
    return f"{source!r} is not arithmetic"
