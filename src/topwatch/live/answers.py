"""Answers on a screen: a card for each where there is room, else a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from topwatch.live.drawing import WIDE, Best
from topwatch.live.run_state import Answer

CARD = 26  # columns of a card
WIDEST = 44
LOWEST = 5  # lines of a card: its name, three entries, and a space below


def answer_view(answers: Sequence[Answer], asked: Mapping[str, str], width: int, height: int) -> RenderableType:
    """Return as many answers as there is room for, those that changed last.

    Parameters
    ----------
    answers : sequence of Answer
        Those that changed last first.
    asked : mapping
        The queries' names, in the order in which to show them, and what they ask for.
    width, height : int
        The room.
    """
    across = max(1, min(width // CARD, len(answers)))
    if len(answers) <= across * ((height + 1) // LOWEST):
        return _cards(_in_order(answers, asked), asked, min(width // across, WIDEST), across, height)
    room = max(1, height - 1)
    if len(answers) <= room:
        return answer_lines(_in_order(answers, asked), asked, width)
    more = Text(f"and {len(answers) - room + 1:,} more", style="dim")
    return Group(answer_lines(_in_order(answers[: room - 1], asked), asked, width), more)


def _in_order(answers: Sequence[Answer], asked: Mapping[str, str]) -> list[Answer]:
    """Sort by group and query, so that what stays on the screen does not move."""
    indices = {name: index for index, name in enumerate(asked)}
    return sorted(answers, key=lambda answer: (answer.group, indices.get(answer.query, len(indices)), answer.query))


def _cards(answers: list[Answer], asked: Mapping[str, str], width: int, across: int, height: int) -> Table:
    down = -(-len(answers) // across)
    longest = max((len(answer.rows) for answer in answers), default=0)
    entries = max(1, min((height + 1) // max(1, down) - 2, longest))
    table = Table.grid()
    for _ in range(across):
        table.add_column(width=width)
    for first in range(0, len(answers), across):
        if first:
            table.add_row("")
        table.add_row(*(_card(answer, asked, entries) for answer in answers[first : first + across]))
    return table


def _card(answer: Answer, asked: Mapping[str, str], entries: int) -> Padding:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(justify="right", style="dim", min_width=2)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim", no_wrap=True)
    for rank, (id, score) in enumerate(answer.rows[:entries], 1):
        style = "bold green" if id in answer.fresh else ""
        table.add_row(str(rank), Text(id, style=style), _score(score))
    body: RenderableType = table if answer.rows else Text("   none", style="dim")
    title = _name(answer).append(f"  {asked.get(answer.query, '')}", style="not bold dim")
    return Padding(Group(title, body), (0, 2, 0, 0))


def answer_lines(answers: Sequence[Answer], asked: Mapping[str, str], width: int) -> Table:
    """Return a line for each answer, as many entries as there is room for."""
    wide = width >= WIDE
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("query", no_wrap=True, overflow="ellipsis", max_width=width // 3)
    if wide:
        table.add_column("asks for", no_wrap=True, overflow="ellipsis", max_width=width // 3)
    table.add_column("best now: id and score", no_wrap=True, overflow="ellipsis", ratio=1)
    for answer in answers:
        head = [(id, _score(score), id in answer.fresh) for id, score in answer.rows]
        words = [Text(asked.get(answer.query, ""))] if wide else []
        table.add_row(_name(answer), *words, Best(head))
    return table


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
