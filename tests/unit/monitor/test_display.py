"""What a notebook shows of monitors and plans: a line, and a table whose text is escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import topwatch as tw

QUERIES = [tw.TopK(k=2, score="x", name="<hot & cold>"), tw.Nearest(k=1, point={"x": 0.0}, name="near")]
ROWS: dict[str, Any] = {"id": ["a", "b", "<script>"], "x": [1.0, 2.0, 3.0], "g": ["n", "s", "<i>"]}


class Reader(HTMLParser):
    """Reads a page, and checks that all elements end in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_monitor() -> None:
    m = tw.Monitor(QUERIES, window=tw.last(4))
    assert repr(m) == "<Monitor: 2 queries over the last 4 rows, 0 rows so far>"
    m.push(ROWS)
    assert repr(m) == "<Monitor: 2 queries over the last 4 rows, 3 rows so far>"
    page = Reader(m._repr_html_())
    assert page.seen == TAGS
    assert page.texts[:4] == ["Monitor: 2 queries over the last 4 rows, 3 rows so far", "query", "algorithm", "why"]
    assert {"<hot & cold>", "near", "reserve"} <= set(page.texts)
    m.remove("near")
    assert repr(m).startswith("<Monitor: 1 query over")
    assert repr(tw.Monitor([], tw.latest())) == "<Monitor: 0 queries over the latest row of each id, 0 rows so far>"


def test_grouped_monitor() -> None:
    m = tw.Monitor(QUERIES, window=tw.last("1 hour"), time="x", by="g", lateness="1 second")
    m.push(ROWS)
    assert repr(m) == "<GroupedMonitor: 2 queries over the last 1 hour for each g, 3 groups so far>"
    assert {"<hot & cold>", "near"} <= set(Reader(m._repr_html_()).texts)


def test_a_monitor_that_is_not_whole_can_be_shown() -> None:
    m = tw.Monitor(QUERIES, window=tw.last(4))
    m._integrity._whole = False
    assert "2 queries" in repr(m)
    assert "near" in m._repr_html_()


def test_plan() -> None:
    m = tw.Monitor(QUERIES, window=tw.last(4), by="g")
    by = "<hot & cold> by reserve, near by reserve"
    assert repr(m.plan) == f"<PhysicalPlan: 2 queries over the last 4 rows for each g: {by}>"
    page = Reader(m.plan._repr_html_())
    assert page.seen == TAGS | {"p", "br"}
    for line in m.plan.lines():
        assert any(text in line for text in page.texts)
    texts = " ".join(page.texts)
    assert "evaluated after every row" in texts
    assert "groups: grouped engine" in texts
    assert "state: at most 4 rows" in texts


def test_long_plans_are_shown_in_part() -> None:
    plan = tw.Monitor([tw.TopK(k=1, score="x") for _ in range(30)], window=tw.last(4)).plan
    assert repr(plan).endswith("topk-5 by reserve, 25 more>")
    assert "10 more" in plan._repr_html_()
    assert repr(tw.Monitor([], window=tw.last(4)).plan) == "<PhysicalPlan: 0 queries over the last 4 rows>"


def test_entries_and_changes_are_escaped() -> None:
    m = tw.Monitor(QUERIES, window=tw.last(4), by="g")
    changes = m.push(ROWS)
    for shown in (changes, m.answer("near", by="<i>")):
        page = Reader(shown._repr_html_())
        assert page.seen == TAGS
        assert "<script>" in page.texts
