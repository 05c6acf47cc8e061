"""Words that make no sense: each is refused in one line that names the field, what it got and what is accepted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import topwatch as tw
from tests.support.refusal import refused

BYTES = tw.linear(bytes=1.0)
TOP = tw.TopK(k=1, score=BYTES, name="top")
NAN = float("nan")


Case = tuple[Callable[[], Any], tuple[str, ...]]

QUERIES: dict[str, Case] = {
    "k of 0": (lambda: tw.TopK(k=0, score=BYTES), (r"\bk\b", "0", "at least 1")),
    "negative k": (lambda: tw.TopK(k=-3, score=BYTES), (r"\bk\b", "-3", "at least 1")),
    "half a k": (lambda: tw.TopK(k=2.5, score=BYTES), (r"\bk\b", r"2\.5", "whole")),
    "k in words": (lambda: tw.TopK(k="ten", score=BYTES), (r"\bk\b", "ten", "whole")),
    "k true": (lambda: tw.TopK(k=True, score=BYTES), (r"\bk\b", "True")),
    "nearest k of 0": (lambda: tw.Nearest(k=0, point={"lat": 1.0}), (r"\bk\b", "0", "at least 1")),
    "no point": (lambda: tw.Nearest(k=1, point={}), ("column",)),
    "a point that is a list": (lambda: tw.Nearest(k=1, point=[1, 2]), ("point", r"\[1, 2\]")),
    "a point that is not a number": (lambda: tw.Nearest(k=1, point={"lat": NAN}), ("lat", "nan", "number")),
    "a score that is a number": (lambda: tw.TopK(k=1, score=5), ("TopK: score", "linear", "mapping", "got 5")),
    "a score in a list": (lambda: tw.TopK(k=1, score=["bytes"]), ("score", r"\['bytes'\]", "linear", "column")),
    "a score of no column": (lambda: tw.TopK(k=1, score={}), ("TopK: score", "column")),
    "a column without a name": (lambda: tw.TopK(k=1, score=""), ("TopK: score", "column", "non-empty", "''")),
    "a column in a word": (lambda: tw.TopK(k=1, score={"px": "much"}), ("TopK: score", "px", "number", "'much'")),
    "a threshold on None": (lambda: tw.Threshold(score=None, above=1), ("Threshold: score", "linear", "None")),
    "a threshold on NaN": (lambda: tw.Threshold(score={"px": NAN}, above=1), ("Threshold: score", "px", "nan")),
    "dominating k of 0": (lambda: tw.Dominating(k=0, prefer={"a": "min"}), (r"\bk\b", "0", "at least 1")),
    "nothing preferred": (lambda: tw.Dominating(k=1, prefer={}), ("prefer", "{}", "'min' or 'max'")),
    "prefer in a list": (lambda: tw.Dominating(k=1, prefer=["a"]), ("prefer", r"\['a'\]", "mapping")),
    "prefer most": (lambda: tw.Dominating(k=1, prefer={"a": "most"}), ("prefer", "'a'", "most", "'min' or 'max'")),
    "prefer 1": (lambda: tw.Dominating(k=1, prefer={1: "min"}), ("prefer", "1", "string")),
    "above nothing": (lambda: tw.Threshold(score=BYTES, above=NAN), ("above", "nan", "number")),
    "above a word": (lambda: tw.Threshold(score=BYTES, above="9"), ("above", "'9'", "number")),
    "a range turned round": (lambda: tw.TopK(k=1, score=BYTES, where={"x": (9, 1)}), ("where", "'x'", "9", "1", "low")),
    "a range of one": (lambda: tw.TopK(k=1, score=BYTES, where={"port": (9,)}), ("where", "port", "low, high")),
    "a range to NaN": (lambda: tw.TopK(k=1, score=BYTES, where={"port": (0, NAN)}), ("where", "port", "nan", "number")),
    "a where in words": (lambda: tw.TopK(k=1, score=BYTES, where="port < 9"), ("where", "port < 9", "low, high")),
    "a name that is a number": (lambda: tw.TopK(k=1, score=BYTES, name=3), ("name", "3", "string")),
    "no columns": (lambda: tw.linear(), ("linear", "column")),
    "a weight in words": (lambda: tw.linear(bytes="much"), ("linear", "bytes", "much", "number")),
    "a weight of NaN": (lambda: tw.product(bytes=NAN), ("product", "bytes", "nan", "number")),
    "an infinite weight": (lambda: tw.quadratic(bytes=float("inf")), ("quadratic", "bytes", "inf", "finite")),
    "weights in a list": (lambda: tw.linear(["bytes"]), ("linear", "bytes", "mapping|column=")),
    "a call": (lambda: tw.expr("max(bytes, 1)"), (r"max\(bytes, 1\)", "call", r"\+ - \* /")),
    "a dangerous call": (lambda: tw.expr("__import__('os').system('true')"), ("call", r"\+ - \* /")),
    "an attribute": (lambda: tw.expr("net.bytes + 1"), (r"net\.bytes", "attribute", r"\+ - \* /")),
    "an index": (lambda: tw.expr("bytes[0]"), (r"bytes\[0\]", r"\+ - \* /")),
    "a comparison": (lambda: tw.expr("bytes > 3"), ("bytes > 3", r"\+ - \* /")),
    "a condition": (lambda: tw.expr("bytes if seconds else 0"), ("bytes if", r"\+ - \* /")),
    "a lambda": (lambda: tw.expr("lambda: 0"), ("lambda", r"\+ - \* /")),
    "a string": (lambda: tw.expr("bytes + 'x'"), ("'x'", r"\+ - \* /")),
    "a remainder": (lambda: tw.expr("bytes % 2"), ("bytes % 2", r"\+ - \* /")),
    "an open bracket": (lambda: tw.expr("bytes / (1 + seconds"), (r"bytes / \(1", r"\+ - \* /")),
    "a statement": (lambda: tw.expr("bytes = 1"), ("bytes = 1", r"\+ - \* /")),
    "two lines": (lambda: tw.expr("bytes\n+ 1; import os"), (r"\+ - \* /",)),
    "an empty expression": (lambda: tw.expr(" "), ("expr", "expression")),
    "an expression of None": (lambda: tw.expr(None), ("expr", "None")),
    "an expression of numbers only": (lambda: tw.expr("1 + 2"), (r"1 \+ 2", "column")),
    "a deep expression": (lambda: tw.expr("-" * 900 + "bytes"), ("expr", "deep|nested|levels")),
    "a promise misspelt": (lambda: tw.expr("bytes * 2", increasing=["byts"]), ("increasing", "byts", "'bytes'")),
    "a promise both ways": (lambda: tw.expr("a * 2", increasing=["a"], decreasing=["a"]), ("'a'", "both")),
    "a window of 0 rows": (lambda: tw.last(0), ("last", "0", "at least 1")),
    "a negative window": (lambda: tw.last(-5), ("last", "-5", "at least 1")),
    "half a row": (lambda: tw.last(2.5), ("last", r"2\.5", "rows")),
    "a window of no time": (lambda: tw.last("0 minutes"), ("last", "0 minutes", "10 minutes")),
    "a window back in time": (lambda: tw.last("-1 minute"), ("last", "-1 minute", "10 minutes")),
    "a window in words": (lambda: tw.last("ten minutes"), ("last", "ten minutes", "10 minutes")),
    "an unknown unit": (lambda: tw.last("3 minuts"), ("last", "minuts", "'minutes'")),
}  # fmt: skip


def monitor(query: Any = TOP, window: Any = None, **arguments: Any) -> tw.Monitor:
    return tw.Monitor(query, window=tw.last(10) if window is None else window, **arguments)


MONITORS: dict[str, Case] = {
    "no query": (lambda: monitor("top"), ("quer", "'top'", "TopK")),
    "a list with something else": (lambda: monitor([TOP, 5]), ("quer", "5", "TopK")),
    "one name twice": (lambda: monitor([TOP, TOP]), ("name", "'top'")),
    "a number as window": (lambda: monitor(window=10), ("window", "10", r"last\(")),
    "a word as window": (lambda: monitor(window="10 minutes"), ("window", "10 minutes", r"last\(")),
    "every 0 rows": (lambda: monitor(every=0), ("every", "0", "at least 1|1 or more")),
    "every -1 rows": (lambda: monitor(every=-1), ("every", "-1", "at least 1|1 or more")),
    "every half row": (lambda: monitor(every=2.5), ("every", r"2\.5", "rows|whole")),
    "every true": (lambda: monitor(every=True), ("every", "True")),
    "every now and then": (lambda: monitor(every="now and then", time="time"), ("every", "now and then", "minute")),
    "every minute without time": (lambda: monitor(every="1 minute"), ("every", "time=")),
    "a time window without time": (lambda: monitor(window=tw.last("1 minute")), ("window", "time=")),
    "an id that is a number": (lambda: monitor(id=3), (r"\bid\b", "3", "column|string")),
    "a time that is a number": (lambda: monitor(time=3), (r"\btime\b", "3", "column|string")),
    "an unknown option": (lambda: monitor(algorithm="tma", cels=9), ("cels", "'cells'")),
    "no cells": (lambda: monitor(algorithm="tma", cells=0), ("cells", "0", "at least 1")),
    "cells in words": (lambda: monitor(algorithm="sma", cells="many"), ("cells", "many", "number")),
    "negative slack": (lambda: monitor(algorithm="reserve", slack=-1), ("slack", "-1", "at least")),
    "no kmax": (lambda: monitor(algorithm="tsl", kmax=0), ("kmax", "0", "at least")),
    "an answer of nobody": (lambda: monitor().answer("tap"), ("'tap'", "'top'")),
    "lines of many": (lambda: monitor([TOP, tw.TopK(2, BYTES, "two")]).lines(), ("name", "top", "two")),
    "remove nobody": (lambda: monitor().remove("tap"), ("'tap'", "'top'")),
    "add one name twice": (lambda: monitor().add(TOP), ("name", "'top'")),
    "add something else": (lambda: monitor().add("top"), ("quer", "'top'", "TopK")),
    "delete from a count window": (lambda: monitor().delete([1]), ("delete", r"latest\(\)")),
}  # fmt: skip


@pytest.mark.parametrize("case", QUERIES)
def test_query_or_window(case: str) -> None:
    make, patterns = QUERIES[case]
    with refused(tw.QueryError, *patterns):
        make()


@pytest.mark.parametrize("case", MONITORS)
def test_monitor(case: str) -> None:
    make, patterns = MONITORS[case]
    with refused(tw.QueryError, *patterns):
        make()


@pytest.mark.parametrize(("name", "nearest"), [("smaa", "'sma'"), ("TMA", "tma"), ("", "auto"), (5, "auto")])
def test_unknown_algorithm(name: Any, nearest: str) -> None:
    with refused(tw.TopwatchError, "algorithm", re.escape(repr(name)), nearest, "brute"):
        monitor(algorithm=name)


def test_advance_without_time() -> None:
    with refused(tw.TopwatchError, "advance", "time="):
        monitor().advance(3.0)


@pytest.mark.parametrize("blob", [b"", b"not a snapshot", None, "text"], ids=repr)
def test_restore_of_something_else(blob: Any) -> None:
    with refused(tw.TopwatchError, "snapshot"):
        tw.Monitor.restore(blob)


def test_restore_of_half_a_snapshot() -> None:
    blob = monitor().snapshot()
    with refused(tw.TopwatchError, "snapshot"):
        tw.Monitor.restore(blob[: len(blob) // 2])


def test_a_column_or_weights_are_a_score() -> None:
    assert tw.TopK(1, "px").score == tw.TopK(1, {"px": 1}).score == tw.linear(px=1.0)
    assert tw.Threshold({"a b": 3.0, "c": -1.0}, 0.5).score == tw.linear({"a b": 3.0, "c": -1.0})
    assert hash(tw.TopK(1, "px")) == hash(tw.TopK(1, tw.linear(px=1.0)))


def test_queries_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        TOP.k = 5


def test_all_errors_are_of_one_family() -> None:
    assert all(issubclass(error, tw.TopwatchError) for error in (tw.QueryError, tw.DataError, tw.PlanError))
