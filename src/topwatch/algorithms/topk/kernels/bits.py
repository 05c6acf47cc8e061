"""Which of 64 consecutive rows reach a goal, as the bits of one number.

Numba turns a loop that counts into vector instructions, but not one that says which rows it counted. So the vectors are
written down here: the terms of a score for 64 rows, a comparison, and its 64 results taken for a number. LLVM cuts such
vectors to the size that the processor has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from topwatch.core.jit import COMPILED, inlined
from topwatch.core.kernels.scoring import Floats, Ints

WIDTH = 64

# Of columns, the numbers of those that a score reads, its coefficients, the first row and the goal.
Reaching = Callable[[Floats, Ints, Floats, int, float], int]


def _plain(distance: bool, terms: int) -> Reaching:
    """Return the function as it is without a compiler."""

    def reach(columns: Floats, column: Ints, value: Floats, start: int, goal: float) -> int:
        total = np.zeros(WIDTH)
        for t in range(terms):
            x = columns[column[t], start : start + WIDTH]
            with np.errstate(all="ignore"):  # there may be anything behind the rows that are requested
                total = total + ((x - value[t]) * (x - value[t]) if distance else value[t] * x)
        result = total <= goal if distance else total >= goal
        return sum(1 << i for i in np.flatnonzero(result).tolist())

    return reach


def _settled(builder: Any, number: Any) -> Any:
    """Return a number from a register: no instruction, but LLVM does not look behind it.

    Where the functions for several scores meet it would carry 64 results on in place of a number, and take them apart
    byte by byte on processors without registers for masks: scans took twice as long on one.
    """
    kind = ir.FunctionType(number.type, [number.type])
    return builder.asm(kind, "", "=r,0", [number], side_effect=False)


def _compiled(distance: bool, terms: int) -> Reaching:
    """Return the function for squares of distances up to the goal, or for weighted sums from it on."""
    vector = ir.VectorType(ir.DoubleType(), WIDTH)

    @intrinsic
    def reach(typing: Any, columns: Any, column: Any, value: Any, start: Any, goal: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def of(number: int) -> Any:
                return context.make_array(signature.args[number])(context, builder, arguments[number])

            def all_of(x: Any) -> Any:
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
                spread = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
                return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), spread)

            table = of(0)
            length = builder.extract_value(table.shape, 1)
            total = None
            for t in range(terms):
                index = ir.Constant(ir.IntType(64), t)
                row = builder.load(builder.gep(of(1).data, [index]))
                a = all_of(builder.load(builder.gep(of(2).data, [index])))
                pointer = builder.gep(table.data, [builder.add(builder.mul(row, length), arguments[3])])
                x = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=8)
                if distance:
                    x = builder.fsub(x, a)
                    a = x
                part = builder.fmul(a, x)
                total = part if total is None else builder.fadd(total, part)
            result = builder.fcmp_ordered("<=" if distance else ">=", total, all_of(arguments[4]))
            return _settled(builder, builder.bitcast(result, ir.IntType(64)))

        return types.int64(columns, column, value, types.int64, types.float64), build

    return reach


_function = _compiled if COMPILED else _plain
far_1, far_2, far_3, far_4 = (_function(False, terms) for terms in (1, 2, 3, 4))
near_2, near_3, near_4 = (_function(True, terms) for terms in (2, 3, 4))

if COMPILED:

    @intrinsic
    def lowest(typing: Any, bits: Any) -> Any:
        """Return the index of the lowest bit that is set."""

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.int64), build

    @inlined
    def lowest_of(bits: int, count: int) -> int:
        """Return the lowest bits, fewer than all."""
        return bits & ((1 << count) - 1)

else:

    def lowest_of(bits: int, count: int) -> int:
        """Return the lowest bits, fewer than all."""
        return int(bits) & ((1 << int(count)) - 1)

    def lowest(bits: int) -> int:
        """Return the index of the lowest bit that is set."""
        return (int(bits) & -int(bits)).bit_length() - 1
