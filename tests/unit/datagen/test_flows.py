"""Network flows with a flood: the same for the same seed, however they are cut, and a story that queries can tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topwatch as tw
from topwatch.datagen import files, flows


def is_attack(names: pa.ChunkedArray | pa.Array) -> np.ndarray:
    return np.array([name.startswith(("203.0.113.", "198.51.100.")) for name in names.to_pylist()])


@pytest.mark.parametrize("cut", [1, 100, flows.BLOCK, flows.BLOCK + 1])
def test_rows_do_not_depend_on_how_they_are_cut(cut: int) -> None:
    whole = flows.part(3, 0, 2 * flows.BLOCK + 5)
    assert whole.slice(0, cut) == flows.part(3, 0, cut)
    assert whole.slice(cut, 50) == flows.part(3, cut, cut + 50)
    assert flows.part(4, 0, cut) != flows.part(3, 0, cut)
    assert flows.part(3, cut, cut).num_rows == 0


def test_values_are_flows() -> None:
    rows = flows.part(0, 0, 50_000)
    packets, size, seconds = (rows.column(name).to_numpy() for name in ("packets", "bytes", "seconds"))
    assert packets.min() >= 1
    assert seconds.min() > 0
    assert np.all((size >= 79 * packets) & (size <= 1401 * packets))
    assert np.median(packets) < packets.mean() < packets.max() / 100, "heavy-tailed"


def test_the_flood_builds_up_and_takes_the_top() -> None:
    rate = tw.expr("packets / (0.1 + seconds)", increasing=["packets"], decreasing=["seconds"])
    monitor = tw.Monitor(tw.TopK(k=5, score=rate, name="fastest"), window=tw.last(20_000), id="flow")
    middle, end = flows.QUIET + flows.BUILD_UP // 2, flows.QUIET + flows.BUILD_UP
    shares, best = [], []
    for start in (0, flows.QUIET - 20_000, middle, end):
        rows = flows.part(0, start, start + 20_000)
        monitor.push(rows)
        shares.append(is_attack(rows.column("flow")).mean())
        best.append([is_attack(pa.array([entry.id]))[0] for entry in monitor.answer()])
    assert shares[:2] == [0, 0]
    assert shares[2] == pytest.approx(flows.SHARE / 2, rel=0.3)
    assert shares[3] == pytest.approx(flows.SHARE, rel=0.3)
    assert not any(best[0] + best[1])
    assert all(best[2] + best[3])


@pytest.mark.parametrize("suffix", files.FORMATS)
def test_they_can_be_written(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"flows{suffix}"
    files.write(path, "flows", rows=10_000, dims=4, seed=1)
    if suffix == ".parquet":
        table = pq.read_table(path)
        assert table.equals(pa.Table.from_batches([flows.part(1, 0, 10_000)]))
    assert path.stat().st_size > 10_000
