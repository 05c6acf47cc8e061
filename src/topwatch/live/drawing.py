"""How a frame is drawn: the parts of the screen, and figures in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.align import Align
from rich.console import Console
from rich.measure import Measurement
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from topwatch.live.frames import Frame
from topwatch.monitor.changes import Change
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, Skyline, Threshold
from topwatch.query.scores import Score

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult

BARS = "▁▂▃▄▅▆▇█"
WIDE = 100  # columns; from here on there is more to see


class Recent:
    """The newest changes, as many as there is room for."""

    def __init__(self, recent: list[Change]) -> None:
        self._recent = recent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = (options.height or 10) - 1
        blocks = 2 if options.max_width >= WIDE else 1
        yield Rule("changes, newest first", style="dim", align="left")
        panes = [_changes(self._recent[i * height : (i + 1) * height]) for i in range(blocks)]
        table = Table.grid(padding=(0, 4), expand=True)
        table.add_row(*panes)
        yield table


def _changes(changes: list[Change]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim")
    table.add_column(width=7)
    table.add_column(width=10)
    table.add_column(justify="right")
    table.add_column(justify="right")
    for change in changes:
        style = "green" if change.op == "enter" else "red"
        op = "enters" if change.op == "enter" else "leaves"
        table.add_row(
            f"{change.at:,}", Text(op, style=style), Text(change.query), f"{change.id}", f"{change.score:.4f}"
        )
    return table


def header(title: str, seconds: float) -> Table:
    """Return the line at the top."""
    right = f"  {clock(seconds)}  Ctrl-C stops"
    table = Table.grid(expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(no_wrap=True, width=len(right))
    table.add_row(Text.assemble(("topwatch ", "bold cyan"), title), Text(right, style="dim"))
    return table


def big_figures(frame: Frame, width: int) -> Table:
    """Return the figures with their labels below them and, where there is room, the rate over time."""
    table = Table.grid(expand=True, padding=(0, 1))
    figures = figures_of(frame)
    for value, label in figures:
        table.add_column(min_width=max(len(value), len(label)), no_wrap=True)
    thresholds = [Align.right(bars_of(frame.rates))] if width >= WIDE else []
    table.add_row(*(Text(value, style="bold") for value, _ in figures), *thresholds)
    table.add_row(*(Text(label, style="dim") for _, label in figures))
    return table


def bars_of(values: Sequence[float]) -> Text:
    """Return values as a sparkline, the newest at the right.

    >>> str(bars_of([0.0, 1.0, 2.0, 4.0]))
    '▁▃▅█'
    """
    recent = values[-20:]
    top = max(recent, default=0.0) or 1.0
    return Text("".join(BARS[min(7, int(8 * value / top))] for value in recent), style="cyan")


def figures_of(frame: Frame) -> list[tuple[str, str]]:
    """Return the figures of a frame, each as value and label."""
    figures = [
        (f"{frame.rate:,.0f}", "rows/s"),
        (f"{frame.rows:,}", "rows"),
        (f"{frame.live:,}", "live"),
        (f"{frame.changes:,}", "changes"),
        (size_of(frame.bytes), "state"),
    ]
    if frame.pruned > 0:  # few queries are scanned, and then nothing is pruned
        figures.append((_share(frame.pruned), "pruned"))
    if frame.reached is not None:
        figures.append((_share(frame.reached), "reach a threshold"))
    return figures


def query_table(frame: Frame, width: int) -> Table:
    """Return a line for each query, with the head of its answer."""
    wide = width >= WIDE
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("query", no_wrap=True)
    table.add_column("asks for", no_wrap=True, overflow="ellipsis")
    table.add_column("by", no_wrap=True)
    if wide:
        table.add_column("changes", no_wrap=True, justify="right")
    table.add_column("best now: row and score", no_wrap=True, overflow="ellipsis", ratio=1)
    for s in frame.queries:
        changes = [f"{s.changes:,}"] if wide else []
        name = Text(str(s.query.name), style="bold")
        head = [(f"{entry.id}", f"{entry.score:.4f}", entry.id in s.fresh) for entry in s.answer]
        table.add_row(name, Text(describe(s.query)), s.algorithm, *changes, Best(head))
    return table


class Best:
    """The head of an answer in a line, as many entries as there is room for, new ones bright.

    Parameters
    ----------
    entries : list of tuples
        Id, score, and whether it is new.
    """

    def __init__(self, entries: list[tuple[str, str, bool]]) -> None:
        self._entries = entries

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(16, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Text("" if self._entries else "none", style="dim", no_wrap=True, overflow="ellipsis")
        for id, score, fresh in self._entries:
            words = id, f" {score} "
            if text and len(text) + sum(map(len, words)) - 1 > options.max_width:
                break
            text.append(words[0], style="not dim bold green" if fresh else "not dim").append(words[1])
        text.rstrip()
        yield text


def describe(query: Query) -> str:
    """Return a query in a few words.

    >>> from topwatch import Nearest, TopK, linear
    >>> describe(TopK(k=5, score=linear(a=0.5, b=-1), where={"c": (0, 9)}))
    'top 5 by 0.5 a - b, c 0..9'
    >>> describe(Nearest(k=3, point={"a": 1, "b": 2}))
    '3 nearest to a=1 b=2'
    >>> describe(Dominating(k=3, prefer={"price": "min", "stars": "max"}))
    '3 that dominate most by -price +stars'
    >>> describe(Skyline(prefer={"price": "min", "stars": "max"}))
    'skyline by -price +stars'
    """
    where = "".join(f", {column} {low:g}..{high:g}" for column, (low, high) in query.where.items())
    if isinstance(query, Dominating | Skyline | FrequentSkyline):
        sides = " ".join(f"{'+' if better == 'max' else '-'}{column}" for column, better in query.prefer.items())
        if isinstance(query, Dominating):
            return f"{query.k} that dominate most by {sides}{where}"
        often = f" in {query.share:g} of {query.snapshots} snapshots" if isinstance(query, FrequentSkyline) else ""
        return f"skyline by {sides}{often}{where}"
    if isinstance(query, IncompleteTopK):
        return f"top {query.k} by {query.combine} over {', '.join(map(str, query.sources))}{where}"
    if isinstance(query, Threshold):
        sign = "<" if query.score.smaller_is_better else ">"
        return f"{_formula(query.score)} {sign} {query.above:g}{where}"
    if isinstance(query, Nearest):
        return f"{query.k} nearest to {_formula(query.score)}{where}"
    return f"top {query.k} by {_formula(query.score)}{where}"


def _formula(score: Score) -> str:
    if score.expression is not None:
        return score.expression.text
    pairs = list(zip(score.columns, score.coefficients, strict=True))
    if score.kind == "distance":
        return " ".join(f"{column}={a:g}" for column, a in pairs)
    if score.kind == "product":
        return "".join(f"({a:g}+{column})" for column, a in pairs)
    power = "^2" if score.kind == "quadratic" else ""
    terms = [("-" if a < 0 else "+", ("" if abs(a) == 1 else f"{abs(a):g} ") + column + power) for column, a in pairs]
    text = " ".join(f"{sign} {term}" for sign, term in terms)
    return text.removeprefix("+ ")


def summary(frame: Frame) -> str:
    """Return the totals in a line."""
    rate = frame.rows / frame.seconds if frame.seconds > 0 else 0.0
    return (
        f"{frame.rows:,} rows in {frame.seconds:.1f} s ({rate:,.0f} a second), {frame.changes:,} changes,"
        f" {size_of(frame.bytes)} of state"
    )


def size_of(count: int) -> str:
    """Return a number of bytes in words.

    >>> size_of(2_000), size_of(47_300_000), size_of(1_500_000_000)
    ('2 kB', '47.3 MB', '1.5 GB')
    """
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _share(share: float) -> str:
    return f"{100 * share:.3f} %" if 0 < share < 0.01 else f"{100 * share:.1f} %"


def clock(seconds: float) -> str:
    """Return minutes and seconds.

    >>> clock(61.7)
    '1:01'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
