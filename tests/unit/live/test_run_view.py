"""The view of ``topwatch run``, drawn as a person reads it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

import topwatch as tw
from topwatch.live.run_view import RunScreen, RunView, view_of

QUERIES = [
    tw.TopK(k=3, score=tw.linear(bytes=0.7, packets=0.3), name="hot"),
    tw.Nearest(k=2, point={"x": 1, "y": 2}, name="near"),
]
HOT = ((), "hot", (("a", 990.0), ("b", 330.0), ("c", 0.5)))
NEAR = ((), "near", ((17, 0.25), (4, 0.5)))
TITLE = "pipeline.yml: 2 queries over the last 50 rows"


def screen(width: int = 80, height: int = 24) -> RunScreen:
    console = Console(file=io.StringIO(), record=True, force_terminal=True, width=width, height=height)
    view = view_of(TITLE, QUERIES, console=console)
    assert isinstance(view, RunScreen)
    return view


def drawn(view: RunScreen) -> list[str]:
    """The lines on the screen, each of which fits."""
    console = view._console
    console.print(view.draw())
    lines = console.export_text().splitlines()
    assert len(lines) <= console.height
    assert max(map(cell_len, lines)) <= console.width
    return [line.rstrip() for line in lines]


def run(view: RunView, batches: int = 4, answers: Any = (HOT, NEAR)) -> None:
    for number in range(batches):
        view.status(rows=1000 * (number + 1), late=3, refused=1, live=50, bytes=2_400_000, answers=answers)
        view.micro_batch(
            number, 1000, 50.0 if number == 0 else 0.5, "2024-01-01T00:00:00Z", unread=1 if number == 0 else 0
        )
    view.phase("")


def test_at_the_beginning_it_says_what_it_waits_for() -> None:
    view = screen()
    text = "\n".join(drawn(view))
    assert text.startswith(f"topwatch {TITLE}")
    assert "0:00  Ctrl-C stops" in text
    assert "starting Spark" in text
    view.phase("reading the first rows; kernels are compiled")
    text = "\n".join(drawn(view))
    assert "reading the first rows" in text
    assert "kernels are compiled" in text


def test_figures_and_answers() -> None:
    view = screen()
    run(view)
    lines = drawn(view)
    text = "\n".join(lines)
    assert "micro-batch 4" in text  # the one under way
    values, labels = lines[3:5]
    for value, label in (("2,000", "rows/s"), ("2,000", "mean rows/s"), ("3", "batch"), ("0.5 s  ███", "batch time")):
        assert values[labels.index(label) :].startswith(value), (values, labels)
    values, labels = lines[6:8]
    figures = {"rows ": "4,000", "rows kept": "50", "state": "2.4 MB", "late": "3", "refused": "2"}
    for label, value in figures.items():
        assert values[labels.index(label) :].startswith(value), (values, labels)
    assert [" ".join(line.split()) for line in lines[9:13]] == [
        "hot top 3 by 0.7 bytes + 0.3 packets near 2 nearest to x=1 y=2",
        "1 a 990.00 1 17 0.2500",
        "2 b 330.00 2 4 0.5000",
        "3 c 0.5000",
    ]


def test_new_rows_of_an_answer_are_bright() -> None:
    view = screen()
    run(view)
    view.status(5000, 3, 1, 50, 2_400_000, [((), "hot", (("z", 991.0), ("a", 990.0))), NEAR])
    assert view.course.state is not None
    assert [answer.fresh for answer in view.course.state.answers] == [{"z"}, set()]
    view._console.print(view.draw())
    bright = view._console.export_text(styles=True)
    assert "\x1b[1;32mz " in bright
    assert "\x1b[1;32ma" not in bright


def test_it_says_that_it_waits_for_rows_and_keeps_what_it_knows() -> None:
    view = screen()
    run(view)
    view.phase("waiting for rows")
    lines = drawn(view)
    assert lines[1].endswith("waiting for rows")
    assert any("990.00" in line for line in lines)


def test_answers_of_an_earlier_run_are_there_before_the_first_batch() -> None:
    view = screen()
    view.status(rows=700, late=0, refused=0, live=50, bytes=9000, answers=[HOT])
    view.phase("waiting for rows")
    text = "\n".join(drawn(view))
    assert "waiting for rows" in text
    assert "990.00" in text
    assert "700" in text
    assert "rows/s" not in text


def test_without_a_status_only_the_pace_is_known() -> None:
    view = screen()
    view.micro_batch(0, 1000, 0.5, "2024-01-01T00:00:00Z", unread=0)
    view.phase("")
    text = "\n".join(drawn(view))
    assert "2,000" in text
    assert "shown here when there is a checkpoint" in text
    assert not any(word in text for word in ("late", "refused", "state", "kept"))


def test_groups_are_named_and_stay_in_order() -> None:
    view = screen(width=100, height=30)
    groups = [((name,), "hot", (("a", 1.0),)) for name in ("JFK", "EWR", None)]
    run(view, answers=groups)
    names = [line for line in drawn(view) if line.startswith("hot")]
    run(view, answers=groups[::-1])
    assert [line for line in drawn(view) if line.startswith("hot")] == names
    assert [word for word in " ".join(names).split() if word in ("JFK", "EWR", "null")] == ["EWR", "JFK", "null"]


def test_where_there_is_no_room_for_cards_there_are_lines_and_then_a_number() -> None:
    groups = [((f"group{i}",), "hot", (("a", 1.0), ("b", 0.5))) for i in range(40)]
    view = screen(80, 24)
    run(view, answers=groups)
    lines = drawn(view)
    assert "best now: id and score" in lines[9]
    assert lines[10].split() == ["hot", "group0", "a", "1.0000", "b", "0.5000"]
    assert lines[-1] == "and 27 more"


@pytest.mark.parametrize(("width", "height"), [(60, 24), (70, 12), (60, 6), (20, 5), (1, 1), (300, 80), (80, 3)])
def test_small_and_large_terminals(width: int, height: int) -> None:
    long = ((), "a query with a name as long as a sentence", tuple((f"日本{i}" * 9, 10.0**i) for i in range(-9, 12)))
    for answers in ([], [HOT, NEAR], [long], [long, HOT] * 30):
        view = screen(width, height)
        drawn(view)
        run(view, 30, answers=answers)
        lines = drawn(view)
        if width >= 60:
            assert "Ctrl-C stops" in lines[0]
            assert height < 5 or any("mean rows/s" in line for line in lines)


def test_in_a_pipe_it_is_a_line_for_each_micro_batch(capsys: pytest.CaptureFixture[str]) -> None:
    with view_of(TITLE, QUERIES, console=Console(file=io.StringIO())) as view:
        view.phase("starting Spark")
        view.micro_batch(0, 1000, 0.5, "2024-01-01T00:00:00Z", unread=0)
        view.micro_batch(1, 1000, 0.5, "2024-01-01T00:00:01Z", unread=2)
        view.status(rows=2000, late=3, refused=1, live=50, bytes=2_400_000, answers=[HOT])
        view.phase("waiting for rows")
        view.micro_batch(2, 12_000, 0.25, "2024-01-01T00:00:02Z", unread=0)
        for number in range(3, 6):
            view.micro_batch(number, 100, 0.1, f"2024-01-01T00:00:0{number}Z", unread=0)
    *lines, last = capsys.readouterr().out.splitlines()
    state = "1,000 rows/s, state 50 rows, late 3, refused 3"
    assert lines == [
        TITLE,
        "2024-01-01T00:00:00Z batch 0: 1,000 rows in 0.5 s, 2,000 rows/s",
        "2024-01-01T00:00:01Z batch 1: 1,000 rows in 0.5 s, 2,000 rows/s, refused 2",
        "2024-01-01T00:00:02Z batch 2: 12,000 rows in 0.2 s, 48,000 rows/s, state 50 rows, late 3, refused 3",
        *(f"2024-01-01T00:00:0{number}Z batch {number}: 100 rows in 0.1 s, {state}" for number in range(3, 6)),
        "  hot  a 990.00, b 330.00, c 0.5000",
    ]
    assert last.startswith("14,300 rows in 6 micro-batches, ")
    assert last.endswith(" rows/s in the mean, 50 rows kept (2.4 MB), 3 late, 3 refused")


@pytest.mark.parametrize(
    ("alone", "terminal", "kind"),
    [(True, True, "RunScreen"), (False, True, "RunLines"), (True, False, "RunLines"), (True, None, "RunLines")],
)
def test_the_screen_is_filled_only_where_it_is_a_terminal_of_its_own(
    monkeypatch: pytest.MonkeyPatch, alone: bool, terminal: bool | None, kind: str
) -> None:
    monkeypatch.setenv("TERM", "xterm" if terminal is not None else "dumb")
    console = Console(file=io.StringIO(), force_terminal=terminal is not False)
    assert type(view_of(TITLE, QUERIES, alone, console)).__name__ == kind


def test_what_stays_in_the_terminal_when_it_has_ended() -> None:
    view = screen()
    with view:
        run(view)
    _, after = view._console.export_text().rsplit(TITLE, 1)
    assert "a 990.00 b 330.00" in after
    assert "4,000 rows in 4 micro-batches, " in after
    assert after.endswith("3 late, 2 refused\n")
