"""One live row per id: updates, deletions, and both between evaluations."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.exact_algorithms import ALGORITHMS
from tests.support.sizes import Scale
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, servable, serves
from topwatch.testing.oracle import Seconds, Window
from topwatch.testing.oracle_scores import Score

LATEST = Window("latest")
TOP = mixtures.query("top", Score("linear", (("a", 1.0),)), 2)
SERVING = [algorithm for algorithm in ALGORITHMS if serves(algorithm, TOP, LATEST)]


def rows(**values: float) -> dict[str, np.ndarray]:
    """One row per id, in order, the value in column a."""
    return {"id": np.array(list(values)), "a": np.array(list(values.values()), dtype=float)}


@pytest.mark.parametrize("every", [1, 7, Seconds(3)], ids=["every-1", "every-7", "every-3s"])
@pytest.mark.parametrize("shape", ["uniform", "ties", "infinities", "growing"])
@pytest.mark.parametrize("algorithm", SERVING)
def test_updates_and_deletions(
    algorithm: str, shape: str, every: int | Seconds, rng: np.random.Generator, scale: Scale
) -> None:
    stream = streams.make(shape, rng, max(100, scale.rows // 4), pool=40)
    queries = servable(algorithm, mixtures.mixture(rng, stream, scale.queries, 30, shape), LATEST)
    both = Lockstep(queries, LATEST, every, algorithm)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 40)):
        both.push(batch)
        if rng.random() < 0.5:
            both.delete(rng.permutation(np.arange(-25, 25))[: rng.integers(0, 12)])
        if rng.random() < 0.05:
            both.delete(np.array(list(both.oracle.latest), dtype=np.int64))


@pytest.mark.parametrize("algorithm", SERVING)
class TestByHand:
    def test_the_same_score_again_is_no_change_but_newer(self, algorithm: str) -> None:
        both = Lockstep([TOP], LATEST, 1, algorithm)
        both.push(rows(x=5, y=5))
        assert both.push(rows(x=5)) == []
        assert both.oracle.answer("top") == [("x", 5.0), ("y", 5.0)]
        both.push(rows(z=5))
        assert both.oracle.answer("top") == [("z", 5.0), ("x", 5.0)]

    def test_an_update_in_a_column_that_the_query_does_not_need(self, algorithm: str) -> None:
        both = Lockstep([TOP], LATEST, 1, algorithm)
        both.push(rows(x=5, y=4) | {"b": np.array([1.0, 1.0])})
        assert both.push(rows(y=4) | {"b": np.array([2.0])}) == []

    def test_an_update_into_and_out_of_a_range(self, algorithm: str) -> None:
        inside = mixtures.query("inside", Score("linear", (("a", 1.0),)), 2, where=(("b", 0.0, 1.0),))
        both = Lockstep([inside], LATEST, 1, algorithm)
        both.push(rows(x=5, y=4) | {"b": np.array([1.0, 2.0])})
        assert [change.op for change in both.push(rows(y=4) | {"b": np.array([0.0])})] == ["enter"]
        assert [change.op for change in both.push(rows(x=5) | {"b": np.array([-1.0])})] == ["leave"]

    def test_an_update_that_cannot_be_ranked_takes_the_row_out(self, algorithm: str) -> None:
        both = Lockstep([TOP], LATEST, 1, algorithm)
        both.push(rows(x=5, y=4, z=3))
        assert [change.op for change in both.push(rows(x=np.nan))] == ["leave", "enter"]
        both.push(rows(x=6))
        assert both.oracle.skipped == 1

    def test_updates_within_one_batch_and_one_cycle(self, algorithm: str) -> None:
        both = Lockstep([TOP], LATEST, 4, algorithm)
        both.push({"id": np.array(list("xyxx")), "a": np.array([9.0, 4.0, 1.0, 5.0])})
        assert both.oracle.answer("top") == [("x", 5.0), ("y", 4.0)]
        assert both.push({"id": np.array(list("xxyz")), "a": np.array([8.0, 5.0, 4.0, 0.0])}) == []
        assert both.oracle.answer("top") == [("x", 5.0), ("y", 4.0)]

    def test_deletions_wait_for_the_evaluation(self, algorithm: str) -> None:
        both = Lockstep([TOP], LATEST, 3, algorithm)
        both.push(rows(x=5, y=4, z=3))
        assert both.delete(["x"]) == []
        both.add(mixtures.query("late", TOP.score, 1))  # sees x: the last evaluation did
        both.push(rows(v=0, w=0))
        assert len(both.push(rows(u=0))) == 4

    def test_deleted_and_back_between_evaluations(self, algorithm: str) -> None:
        both = Lockstep([TOP], LATEST, 2, algorithm)
        both.push(rows(x=5, y=4))
        both.delete(["x", "y"])
        assert both.push(rows(x=5, z=6)) == [(4, "top", "leave", "y", 4.0), (4, "top", "enter", "z", 6.0)]

    def test_unknown_ids_are_ignored_and_counted(self, algorithm: str) -> None:
        both = Lockstep([TOP], LATEST, 1, algorithm)
        assert both.delete(["x"]) == []
        both.push(rows(x=5, y=4))
        both.delete(["nobody", "x"])
        both.delete(["x"])
        assert both.delete([]) == []
        assert both.oracle.unknown_deletes == 3

    def test_an_id_that_is_named_twice_is_named_once(self, algorithm: str) -> None:
        both = Lockstep([TOP], LATEST, 1, algorithm)
        both.push(rows(x=5, y=4, z=3))
        assert both.delete(["x", "x"]) == [(3, "top", "leave", "x", 5.0), (3, "top", "enter", "z", 3.0)]
        assert both.delete(["nobody", "nobody", "x", "y", "x", "y"]) == [(3, "top", "leave", "y", 4.0)]
        assert both.oracle.unknown_deletes == 2

    @pytest.mark.parametrize("every", [1, 3])
    def test_deletions_among_rows(self, algorithm: str, every: int, rng: np.random.Generator) -> None:
        """Of ids live, gone, never seen and named twice, of rows before and after; numbers and words for ids."""
        for words in (False, True):
            both = Lockstep([TOP], LATEST, every, algorithm)
            for _ in range(40):
                ids = rng.integers(0, 9, int(rng.integers(0, 5)))
                names = [f"id {i}" for i in ids] if words else ids.tolist()
                if rng.random() < 0.5:
                    both.delete([*names, *names[:1]])
                elif names:
                    both.push({"id": np.array(names), "a": rng.integers(0, 5, ids.size).astype(float)})

    def test_everything_deleted_and_begun_again(self, algorithm: str) -> None:
        both = Lockstep([TOP], LATEST, 1, algorithm)
        for _ in range(3):
            both.push(rows(x=5, y=4, z=3))
            both.delete(["y", "x", "z"])
            both.restart()
        assert both.oracle.answer("top") == []

    def test_many_ids(self, algorithm: str, rng: np.random.Generator, scale: Scale) -> None:
        """More ids than any first guess of the capacity."""
        ids = rng.permutation(10 * scale.rows)
        both = Lockstep([TOP], LATEST, 1000, algorithm)
        both.push({"id": ids, "a": rng.random(len(ids))})
        both.delete(ids[::2])
        both.push({"id": ids[: len(ids) // 2], "a": rng.random(len(ids) // 2)})
