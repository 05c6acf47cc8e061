"""Names of columns as Spark reads them, with dots and anything else in them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a column's name in backticks.

    >>> quoted("net.bytes"), quoted("y`z")
    ('`net.bytes`', '`y``z`')
    """
    return f"`{name.replace('`', '``')}`"
