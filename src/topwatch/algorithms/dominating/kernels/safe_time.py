"""For how long enough contenders stay above a row: the corrected Lemma 2 over all rows whose scores are followed.

A row stays out of the answer as long as k others are above it. Of the contenders, members and candidates alike, each is
above it for min(life, score_j - score) events at least. The board has levels of score, and for each one the lives of
the contenders that reach it, longest first: of n that are needed, so many live for at least the n-th life. It is made
again now and then; an event takes at most one from each life and each gap, and so from what the board tells.
"""

from __future__ import annotations

from topwatch.algorithms.dominating.kernels.event_state import CLOCK, FAR, MADE, NEAR, THRESHOLD, TOP, Course, life
from topwatch.algorithms.dominating.kernels.exact_scores import ROWS, Contenders
from topwatch.core.jit import ZERO, inlined, leaf

LEVELS = 16
ABOVE = 4  # levels above the k-th score: they serve rows with later dominators


@leaf
def make_board(g: Course, c: Contenders) -> None:
    """Write down the contenders as they are now; the k-th score must be known if there are k."""
    n = c.size[ROWS]
    level = g.board.level
    lives = g.board.lives
    worst = ZERO + FAR
    best = ZERO - 1
    for i in range(n):
        worst = min(worst, c.score[i])
        best = max(best, c.score[i])
    threshold = g.now[THRESHOLD] if g.now[THRESHOLD] >= 0 else worst
    for i in range(LEVELS):
        if i < ABOVE:
            level[i] = threshold + ((best - threshold) * (ABOVE - i)) // (ABOVE + 1)
        else:
            # Closer to each other near the k-th score: there are more rows below it than far below it.
            level[i] = threshold - ((threshold - worst) * (i - ABOVE) ** 2) // (LEVELS - 1 - ABOVE) ** 2
    for r in range(1, len(lives)):
        for i in range(LEVELS):
            lives[r, i] = 0
    for i in range(LEVELS):
        reach = ZERO
        # They stand in the order of arrival, so that the last has the longest life.
        for j in range(n - 1, -1, -1):
            if c.score[j] >= level[i]:
                reach += 1
                lives[reach, i] = life(g, c.seq[j])
                if reach == len(lives) - 1:
                    break
    g.now[TOP] = best
    g.now[MADE] = g.now[CLOCK]


@inlined
def is_fresh(g: Course) -> bool:
    """Tell whether the board is there, and not so old that it tells of intervals much shorter than they are."""
    return 0 <= g.now[CLOCK] - g.now[MADE] <= g.now[NEAR] >> 4 and g.now[MADE] >= 0


@inlined
def stays_out(g: Course, needed: int, score: int) -> int:
    """Return for how many events so many contenders surely stay above a row of at most this score."""
    level = g.board.level
    lives = g.board.lives[needed]
    longest = ZERO
    for i in range(LEVELS):
        longest = max(longest, min(lives[i], level[i] - score))
    return longest - (g.now[CLOCK] - g.now[MADE])


@inlined
def lasts(g: Course, needed: int) -> int:
    """Return for how many events so many contenders are there at least, whatever their scores."""
    return g.board.lives[needed, LEVELS - 1] - (g.now[CLOCK] - g.now[MADE])
