"""The values of a device as lines of text: the last one counts."""

from __future__ import annotations

import re
from typing import TextIO

_BETWEEN = re.compile(r"[\s,;]+")
_LONGEST = 4096  # characters of a line


class LastLine:
    r"""Reads lines until they end; a line that is no row of numbers is counted and changes nothing.

    >>> import io
    >>> last = LastLine(io.StringIO("1, 2\nthree\n3.5 4\n"), columns=2)
    >>> last.follow()
    >>> last.values, last.refused
    ((3.5, 4.0), 1)
    """

    def __init__(self, lines: TextIO, columns: int) -> None:
        self.values: tuple[float, ...] | None = None
        self.refused = 0
        self._lines = lines
        self._columns = columns

    def follow(self) -> None:
        """Read to the end."""
        while line := self._lines.readline(_LONGEST):
            words = [word for word in _BETWEEN.split(line) if word]
            try:
                values = tuple(map(float, words))
            except ValueError:
                values = ()
            if len(values) == self._columns:
                self.values = values
            elif words:
                self.refused += 1
