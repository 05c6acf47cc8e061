"""What a notebook shows of an object: a small HTML table, with all text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SHOWN = 20  # rows of a table


def number_of(count: int, one: str, many: str) -> str:
    """Return a number with its noun.

    >>> number_of(1, "query", "queries"), number_of(5000, "query", "queries")
    ('1 query', '5,000 queries')
    """
    return f"{count:,} {one if count == 1 else many}"


def html_table(
    caption: str,
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    more: int = 0,
    notes: Sequence[str] = (),
) -> str:
    """Return a table as HTML.

    Parameters
    ----------
    caption : str
        What stands above it.
    names : sequence of str
        The columns.
    rows : iterable of sequences
        The cells, row by row.
    more : int
        How many rows there are that are not shown.
    notes : sequence of str
        What stands below it, line by line.

    Examples
    --------
    >>> html_table("1 row", ["id"], [("<b>",)]).count("&lt;b&gt;")
    1
    """
    head = _row("th", names)
    body = "".join(_row("td", row) for row in rows)
    below = [*([f"{more:,} more"] if more > 0 else []), *notes]
    last = f"<p>{'<br>'.join(map(escape, below))}</p>" if below else ""
    return f"<table><caption>{escape(caption)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>{last}"


def _row(tag: str, cells: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
