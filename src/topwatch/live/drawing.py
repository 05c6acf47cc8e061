"""What both views draw: the line at the top, sparklines, the head of an answer, answers as cards, queries in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, Skyline, Threshold
from topwatch.query.scores import Score

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult

SPARKS = "▁▂▃▄▅▆▇█"
WIDE = 100  # columns; from here on there is more to see
CARD = 26  # columns of a card
WIDEST = 44
LOWEST = 5  # lines of a card: its name, three entries, and a space below


class Answer(NamedTuple):
    """The answer of a query, or its head, in a group: in words, as ids and groups can be anything."""

    group: str
    query: str
    rows: tuple[tuple[str, float | None], ...]
    fresh: frozenset[str] = frozenset()  # ids that were not in it before


def can_fill(console: Console) -> bool:
    """Return whether a console is a terminal that can be filled and shows sparklines."""
    return console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")


def header(title: str, seconds: float) -> Table:
    """Return the line at the top."""
    right = f"  {clock(seconds)}  Ctrl-C stops"
    table = Table.grid(expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(no_wrap=True, width=len(right))
    table.add_row(Text.assemble(("topwatch ", "bold cyan"), title), Text(right, style="dim"))
    return table


def sparkline(values: Sequence[float]) -> Text:
    """Return values as a sparkline, the newest at the right.

    >>> str(sparkline([0.0, 1.0, 2.0, 4.0]))
    '▁▃▅█'
    """
    recent = values[-20:]
    top = max(recent, default=0.0) or 1.0
    return Text("".join(SPARKS[min(7, int(8 * value / top))] for value in recent), style="cyan")


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


def clock(seconds: float) -> str:
    """Return minutes and seconds.

    >>> clock(61.7)
    '1:01'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


# ---- answers


def answer_view(answers: Sequence[Answer], descriptions: Mapping[str, str], width: int, height: int) -> RenderableType:
    """Return as many answers as there is room for, those that changed last.

    Parameters
    ----------
    answers : sequence of Answer
        Those that changed last first.
    descriptions : mapping
        The queries' names, in the order in which to show them, and what they ask for.
    width, height : int
        The room.
    """
    across = max(1, min(width // CARD, len(answers)))
    if len(answers) <= across * ((height + 1) // LOWEST):
        return _cards(in_order(answers, descriptions), descriptions, min(width // across, WIDEST), across, height)
    room = max(1, height - 1)
    if len(answers) <= room:
        return answer_lines(in_order(answers, descriptions), descriptions, width)
    more = Text(f"and {len(answers) - room + 1:,} more", style="dim")
    return Group(answer_lines(in_order(answers[: room - 1], descriptions), descriptions, width), more)


def in_order(answers: Sequence[Answer], descriptions: Mapping[str, str]) -> list[Answer]:
    """Sort by group and query, so that what stays on the screen does not move."""
    indices = {name: index for index, name in enumerate(descriptions)}
    return sorted(answers, key=lambda answer: (answer.group, indices.get(answer.query, len(indices)), answer.query))


def _cards(answers: list[Answer], descriptions: Mapping[str, str], width: int, across: int, height: int) -> Table:
    down = -(-len(answers) // across)
    longest = max((len(answer.rows) for answer in answers), default=0)
    entries = max(1, min((height + 1) // max(1, down) - 2, longest))
    table = Table.grid()
    for _ in range(across):
        table.add_column(width=width)
    for first in range(0, len(answers), across):
        if first:
            table.add_row("")
        table.add_row(*(_card(answer, descriptions, entries) for answer in answers[first : first + across]))
    return table


def _card(answer: Answer, descriptions: Mapping[str, str], entries: int) -> Padding:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(justify="right", style="dim", min_width=2)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim", no_wrap=True)
    for rank, (id, score) in enumerate(answer.rows[:entries], 1):
        style = "bold green" if id in answer.fresh else ""
        table.add_row(str(rank), Text(id, style=style), _score(score))
    body: RenderableType = table if answer.rows else Text("   none", style="dim")
    title = _name(answer).append(f"  {descriptions.get(answer.query, '')}", style="not bold dim")
    return Padding(Group(title, body), (0, 2, 0, 0))


def answer_lines(answers: Sequence[Answer], descriptions: Mapping[str, str], width: int) -> Table:
    """Return a line for each answer, as many entries as there is room for."""
    wide = width >= WIDE
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("query", no_wrap=True, overflow="ellipsis", max_width=width // 3)
    if wide:
        table.add_column("asks for", no_wrap=True, overflow="ellipsis", max_width=width // 3)
    table.add_column("best now: id and score", no_wrap=True, overflow="ellipsis", ratio=1)
    for answer in answers:
        head = [(id, _score(score), id in answer.fresh) for id, score in answer.rows]
        words = [Text(descriptions.get(answer.query, ""))] if wide else []
        table.add_row(_name(answer), *words, Best(head))
    return table


def plain_lines(answers: Sequence[Answer], entries: int) -> list[str]:
    """Return a line of plain text for each answer, with its first entries.

    >>> plain_lines([Answer("north", "hot", (("a", 990.0), ("b", 330.0)))], 1)
    ['  hot north  a 990.00 and 1 more']
    """
    names = [_name(answer).plain for answer in answers]
    width = max(map(len, names), default=0)
    lines = []
    for name, answer in zip(names, answers, strict=True):
        head = ", ".join(id if score is None else f"{id} {_score(score)}" for id, score in answer.rows[:entries])
        more = f" and {len(answer.rows) - entries:,} more" if len(answer.rows) > entries else ""
        lines.append(f"  {name:<{width}}  {head or 'none'}{more}")
    return lines


def _name(answer: Answer) -> Text:
    name = Text(answer.query, style="bold", no_wrap=True, overflow="ellipsis")
    return name.append(f" {answer.group}", style="not bold magenta") if answer.group else name


def _score(score: float | None) -> str:
    """Return a score in about seven characters.

    >>> _score(0.98765), _score(-17.5), _score(1234.5), _score(98765432.1), _score(1.5e12), _score(0.0000125)
    ('0.9877', '-17.50', '1,234.5', '98,765,432', '1.5e+12', '1.25e-05')
    """
    if score is None:
        return "-"
    size = abs(score)
    if size >= 1e9 or 0 < size < 1e-3:
        return f"{score:.3g}"
    digits = 4 if size < 10 else 2 if size < 1000 else 1 if size < 1e5 else 0
    return f"{score:,.{digits}f}"
