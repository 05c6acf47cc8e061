"""The values of a device as lines of text, of which the last one counts. No NumPy is imported."""

from __future__ import annotations

import re
from typing import TextIO

from topwatch.query.errors import DataError

_BETWEEN = re.compile(r"[\s,;]+")
_LONGEST = 4096  # characters of a line
_SHOWN = 60  # characters of a line that an error repeats


class LastLine:
    r"""Reads lines of numbers with commas or spaces; ``nan`` is a missing value, empty lines do not count.

    A line that is no row of numbers ends the reading: going on would leave the values of an earlier line in force.

    >>> import io
    >>> last = LastLine(io.StringIO("1, 2\n3.5 4\nthree 5\n"), columns=2)
    >>> last.follow()
    Traceback (most recent call last):
    ...
    topwatch.DataError: line 3: expected 2 numbers, got 'three 5'
    >>> last.values
    (3.5, 4.0)
    """

    def __init__(self, lines: TextIO, columns: int) -> None:
        self.values: tuple[float, ...] | None = None
        self._lines = lines
        self._columns = columns

    def follow(self) -> None:
        """Read to the end."""
        number = 0
        while True:
            number += 1
            try:
                line = self._lines.readline(_LONGEST)
            except UnicodeDecodeError as error:
                raise DataError(f"line {number}: expected text: {error}") from error
            if not line:
                return
            if len(line) == _LONGEST and not line.endswith("\n"):
                raise DataError(f"line {number}: expected at most {_LONGEST} characters, got more")
            self._take(number, line)

    def _take(self, number: int, line: str) -> None:
        words = [word for word in _BETWEEN.split(line) if word]
        try:
            values = tuple(map(float, words))
        except ValueError:
            values = ()
        if len(values) == self._columns:
            self.values = values
        elif words:
            got = line.strip()
            got = repr(got if len(got) <= _SHOWN else f"{got[:_SHOWN]}...")
            count = f"{len(values)} numbers, {got}" if values else got
            raise DataError(f"line {number}: expected {self._columns} numbers, got {count}")


def separate(lines: TextIO) -> TextIO:
    """Return another reader of the same input where that is a file or a pipe.

    The interpreter closes standard input when it exits, and cannot while a thread waits for a line of it.
    """
    try:
        return open(lines.fileno(), encoding=lines.encoding, errors=lines.errors, closefd=False)
    except OSError:  # one in memory
        return lines
