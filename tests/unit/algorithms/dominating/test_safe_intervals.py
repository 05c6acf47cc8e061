"""Lemma 2 of TKDE 2011 as printed gives intervals that are too long; the corrected rule does not.

A small model of ADA in plain Python, with everything exact but the rule under test: scores and later dominators are
counted from scratch, and a row is looked at only when its interval has ended.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from topwatch.testing.lockstep import Lockstep
from topwatch.testing.oracle import Query, Window
from topwatch.testing.oracle_dominance import carrier, dominated

PREFER = (("x", "min"), ("y", "min"))
N, K = 100, 2

# Of the answer: (life in updates, score) of each row; then the row's own score and its later dominators.
Rule = Callable[[list[tuple[int, int]], int, int], int]


def half(gap: int) -> int:
    return -(-gap // 2)


def printed(answer: list[tuple[int, int]], score: int, r: int) -> int:
    if r >= K:
        return N
    lives = sorted(life for life, _ in answer)
    scores = sorted((s for _, s in answer), reverse=True)
    return min(half(scores[K - r - 1] - score), lives[r])


def corrected(answer: list[tuple[int, int]], score: int, r: int) -> int:
    if r >= K:
        return N
    return sorted(min(life, half(s - score)) for life, s in answer)[r]


def stream() -> dict[str, np.ndarray]:
    """One row of the answer is soon to expire, another soon to be overtaken by a row with one later dominator."""
    rows: list[tuple[float, float]] = [(9.0 + i / 1000, 9.0 - i / 1000) for i in range(N)]
    rows[0:9] = [(3.5, 0.5 + i / 1000) for i in range(9)]  # counted by a and b: b's score falls as they expire
    rows[5] = (0.0, 0.0)  # a: dominates everything, and is gone after 6 updates
    rows[10:30] = [(0.1 + i / 1000, 30.0 - i / 1000) for i in range(20)]  # counted by a only
    rows[60] = (3.0, 0.4)  # b
    rows[61] = (2.5, 2.5)  # p: 8 behind b, but 31 behind a
    rows[62] = (2.4, 2.4)  # q: dominates p and expires later
    rows += [(2.6 + i / 1000, 2.9 - i / 1000) for i in range(60)]  # counted by p and q, not by b
    x, y = np.array(rows).T
    return {"id": np.arange(len(rows)), "x": x.copy(), "y": y.copy()}


def wrong_answers(rule: Rule) -> int:
    """How many evaluations of the model differ from the truth."""
    rows = stream()
    total = len(rows["id"])
    due: dict[int, int] = {}
    answer: set[int] = set()
    wrong = 0
    for now in range(N, total + 1):
        live = np.arange(now - N, now)
        scores = dominated({name: rows[name][live] for name, _ in PREFER}, PREFER).astype(int)
        score = dict(zip(live.tolist(), scores.tolist(), strict=True))
        known = {row for row in score if row in answer or due.get(row, 0) <= now}
        ranked = sorted(known, key=lambda row: (-score[row], -row))
        answer = set(ranked[:K])
        truth = set(sorted(score, key=lambda row: (-score[row], -row))[:K])
        wrong += answer != truth
        standing = [(row - (now - N) + 1, score[row]) for row in answer]
        for row in known - answer:
            later = sum(
                rows["x"][other] <= rows["x"][row] and rows["y"][other] <= rows["y"][row]
                and (rows["x"][other] < rows["x"][row] or rows["y"][other] < rows["y"][row])
                for other in range(row + 1, now) if other not in answer
            )  # fmt: skip
            due[row] = now + max(1, rule(standing, score[row], later))
    return wrong


def test_the_printed_rule_gives_wrong_answers() -> None:
    assert wrong_answers(printed) > 0


def test_the_corrected_rule_does_not() -> None:
    assert wrong_answers(corrected) == 0


def test_nor_does_ada() -> None:
    both = Lockstep([Query("q", "dominating", carrier(PREFER), k=K, prefer=PREFER)], Window("count", N), 1, "ada")
    both.push(stream())
