"""`topwatch bench`, end to end at the scale for tests. Timings are printed, never asserted."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from benchmarks import (
    cikm2009,
    fronts,
    incomplete,
    measure,
    plain,
    plain_filter,
    runner,
    sigmod2006,
    sigmod2009,
    tkde2011,
    tods2015,
    verdicts,
    workload,
)
from tests.support.sizes import COMPILED
from topwatch.cli.main import cli
from topwatch.edge.protocol.device_records import Settings
from topwatch.edge.protocol.filter import FilterMethod
from topwatch.edge.protocol.simulation import run as simulate

SCRIPT = Path(sys.executable).with_name("topwatch")
EXPERIMENTS = [experiment.name for experiment in sigmod2006.experiments(sigmod2006.SCALES["tiny"])]

DEVICES = [experiment.name for experiment in sigmod2009.experiments(sigmod2009.SCALES["tiny"])]
OBJECTS = [*(e.name for e in cikm2009.experiments(cikm2009.SCALES["tiny"])), "speed"]
RIVALS = [experiment.name for experiment in tkde2011.experiments(tkde2011.SCALES["tiny"])]

pytestmark = pytest.mark.skipif(not COMPILED, reason="measures machine code")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, "bench", *map(str, arguments)], capture_output=True, text=True, check=False)


def setting(**changes: Any) -> workload.Setting:
    return replace(sigmod2006.TINY, **changes)


@pytest.fixture(scope="module")
def point() -> measure.Point:
    return measure.measure(setting(), workload.algorithms(), seed=3, budget=1.0)


def test_top_kw(tmp_path: Path) -> None:
    done = run("tods2015", "--scale", "tiny", "--only", "data,b,errors", "--out", tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "luce: skipped" in done.stdout
    written = json.loads((tmp_path / "tods2015-tiny-data.json").read_text())
    for part in written["points"]:
        assert part["skipped"] == {}
        assert [one["algorithm"] for one in part["runs"]] == list(tods2015.ALL)
    errors = json.loads((tmp_path / "tods2015-tiny-errors.json").read_text())["errors"]
    assert [one["data"] for one in errors] == ["ind", "clustered"]
    assert all(one["answers"] > one["missed"] for one in errors)


def test_skylines(tmp_path: Path) -> None:
    done = run("skyline", "--scale", "tiny", "--out", tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    for name in fronts.EXPERIMENTS:
        written = json.loads((tmp_path / f"skyline-tiny-{name}.json").read_text())
        assert all(one["right"] for point in written["points"] for one in point)
        assert {point[0]["name"] for point in written["points"]} == {"topwatch"}


def test_reserve_in_plain_numpy() -> None:
    rows, points = np.random.default_rng(0).random((900, 2)), np.random.default_rng(1).random((4, 2))
    one = plain.PlainReserve(points, 3, rows[:300].copy())
    one.push(rows[300:])
    for q, point in enumerate(points):
        wanted = np.sort(np.sqrt(((rows[-300:] - point) ** 2).sum(axis=1)))[:3]
        assert one.answer(q) == pytest.approx(wanted.tolist())


def test_all_experiments(tmp_path: Path) -> None:
    done = run("sigmod2006", "--scale", "tiny", "--out", tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "Table 2" in done.stdout
    assert "auto → " in done.stdout
    for name in EXPERIMENTS:
        written = json.loads((tmp_path / f"sigmod2006-tiny-{name}.json").read_text())
        assert written["disagreements"] == []
        assert {"topwatch", "Python", "NumPy", "Numba", "CPU"} <= written["machine"].keys()
        for part in written["points"]:
            assert part["skipped"] == {}
            measured = [one["algorithm"] for one in part["runs"]]
            wanted = workload.algorithms() if name != "cells" else ["scan", *workload.gridded()]
            assert measured == wanted
            for one in part["runs"]:
                assert one["cycles"] >= 1
                assert one["seconds"] > 0
                mine = one["changes_digest_per_cycle"]
                assert len(mine) > one["cycles"], "the cycles that are not timed are compared too"
                assert mine == part["runs"][0]["changes_digest_per_cycle"][: len(mine)]
    if importlib.util.find_spec("matplotlib"):
        assert {path.stem for path in tmp_path.glob("*.png")} == {f"sigmod2006-tiny-{name}" for name in EXPERIMENTS}
    assert not list(tmp_path.glob("*.part"))


def test_only_some_experiments(tmp_path: Path) -> None:
    done = run("--scale", "tiny", "--only", "Q, cells", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    both = {f"{name}-tiny-{part}" for name in ("sigmod2006", "tods2015") for part in ("Q", "cells")}
    assert {path.stem for path in tmp_path.glob("*.json")} == both


def test_dominating(tmp_path: Path) -> None:
    done = run("tkde2011", "--scale", "tiny", "--out", tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "covtype was skipped" in done.stdout
    for name in RIVALS:
        written = json.loads((tmp_path / f"tkde2011-tiny-{name}.json").read_text())
        for part in written["points"]:
            assert part["wrong"] == []
            assert all(one["updates"] > 0 for one in part["runs"])


def test_incomplete(tmp_path: Path) -> None:
    done = run("cikm2009", "--scale", "tiny", "--only", "windows,flights,speed", "--out", tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "flights were skipped" in done.stdout
    written = json.loads((tmp_path / "cikm2009-tiny-windows.json").read_text())
    assert all(0 < point["approx"] <= point["eaa"] <= point["setting"]["W"] for point in written["points"])
    assert all(point["wrong"] == 0 for point in written["points"])
    speed = json.loads((tmp_path / "cikm2009-tiny-speed.json").read_text())
    assert [pace["name"] for pace in speed["points"]] == list(incomplete.RUNS)


def test_devices(tmp_path: Path) -> None:
    folder = tmp_path / "data" / sigmod2009.FOLDER
    folder.mkdir(parents=True)
    counts = {name: [1.0, 2.0, 0.0, 3.0, 1.0, 0.0] for name in sigmod2009.CLASSES}
    table = pa.table({"id": [7, 9, 7, 9, 8, 7], "snapshot": [0, 0, 1, 1, 2, 3], **counts})
    pq.write_table(table, folder / "part-0.parquet")
    done = run("sigmod2009", "--scale", "tiny", "--out", tmp_path, "--data", folder.parent)
    assert done.returncode == 0, done.stderr + done.stdout
    for name in DEVICES:
        written = json.loads((tmp_path / f"sigmod2009-tiny-{name}.json").read_text())
        for part in written["points"]:
            assert part["wrong"] == []
            assert part["records"] == (3 if name == "web" else part["setting"]["n"])
            assert all(one["total"] == pytest.approx(one["uplink"] + one["downlink"]) for one in part["runs"].values())


def test_the_transcription_of_filter_is_exact_and_robust() -> None:
    class Checked(plain_filter.PlainFilter):
        def _make_filters(self, skyline: np.ndarray) -> None:
            super()._make_filters(skyline)
            self._check()

    for data in ("ind", "ant"):
        setting = sigmod2009.Setting(data=data, n=60, d=3, ticks=15)
        server = Checked(Settings(3))

        def snapshots(setting: sigmod2009.Setting = setting, server: Checked = server) -> Iterator[np.ndarray]:
            for snapshot in sigmod2009.snapshots(setting, 1):
                server.truth = snapshot
                yield snapshot

        plain = simulate(snapshots(), setting.n, server, True)
        ours = simulate(sigmod2009.snapshots(setting, 1), setting.n, FilterMethod(Settings(3)), True)
        assert plain.answers == ours.answers
        assert (plain.per_timestamp["skyline"] == ours.per_timestamp["skyline"]).all()


def test_list() -> None:
    lines = [f"sigmod2006: {', '.join(EXPERIMENTS)}", f"tods2015: {', '.join(tods2015.EXPERIMENTS)}"]
    lines += [f"tkde2011: {', '.join(RIVALS)}", f"cikm2009: {', '.join(OBJECTS)}"]
    lines += [f"sigmod2009: {', '.join(DEVICES)}", "skyline: static, window", "spark: stream, start"]
    assert run("--list").stdout == "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sigmod2007"], "bench: 'sigmod2007' is not known; accepted are sigmod2006"),
        (["--only", "defaults,kk"], "only: 'kk' is not known; accepted are defaults, k, d"),
        (["--scale", "huge"], "'huge' is not one of 'tiny', 'small', 'paper'"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(*arguments, "--out", tmp_path / "new")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_algorithms_agree(point: measure.Point) -> None:
    assert list(point.runs) == workload.algorithms()
    assert measure.disagreement(point) == ""
    assert len(set(point.runs["scan"].digests)) > 1, "nothing changed in any cycle"


def test_a_wrong_answer_is_reported(point: measure.Point) -> None:
    wrong = list(point.runs["sma"].digests)
    wrong[7] = "other"
    runs = {**point.runs, "sma": replace(point.runs["sma"], digests=tuple(wrong))}
    assert "in cycle 7" in measure.disagreement(replace(point, runs=runs))
    assert "sma" in measure.disagreement(replace(point, runs=runs))


def test_a_short_run_is_compared_as_far_as_it_goes(point: measure.Point) -> None:
    short = replace(point.runs["tsl"], digests=point.runs["tsl"].digests[:3])
    assert measure.disagreement(replace(point, runs={**point.runs, "tsl": short})) == ""


def test_a_wrong_answer_fails_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = measure._digest
    calls: list[str] = []

    def forgetful(table: Any) -> str:
        calls.append(digest(table))
        return calls[-1] if len(calls) != 40 else "wrong"

    monkeypatch.setattr(measure, "_digest", forgetful)
    monkeypatch.setattr(measure, "warm_up", lambda: None)
    done = CliRunner().invoke(cli, ["bench", "--scale", "tiny", "--only", "defaults", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "ANSWERS DIFFER in cycle" in done.stdout
    assert json.loads((tmp_path / "sigmod2006-tiny-defaults.json").read_text())["disagreements"]


def test_an_algorithm_that_cannot_be_built_is_skipped_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    start = workload.Workload.start

    def refuse(self: workload.Workload, algorithm: str) -> Any:
        if algorithm == "tma":
            raise NotImplementedError("not yet")
        return start(self, algorithm)

    monkeypatch.setattr(workload.Workload, "start", refuse)
    result = measure.measure(setting(cycles=2), ["scan", "tma"], seed=0, budget=1.0)
    assert result.skipped == {"tma": "NotImplementedError: not yet"}
    assert list(result.runs) == ["scan"]
    assert result.ratio("tma", "scan") is None


def test_a_budget_stops_early_but_not_before_the_first_cycle() -> None:
    result = measure.measure(setting(r=40, cycles=50), ["scan"], seed=0, budget=1e-9)
    assert 1 <= result.runs["scan"].cycles < 50


def test_sizes_of_the_paper() -> None:
    paper = {experiment.name: experiment for experiment in sigmod2006.experiments(sigmod2006.SCALES["paper"])}
    for s in paper["d"].settings:
        assert math.isclose(s.cells**s.d, 12**4, rel_tol=0.35), "about 12^4 cells for any d"
    assert {s.k: s.kmax for s in paper["k"].settings} == sigmod2006.KMAX
    assert all(s.r * 100 == s.N for s in paper["N"].settings)
    assert {s.score for s in paper["scores"].settings} == {"linear", "product", "quadratic"}


def test_verdicts_name_what_was_measured(point: measure.Point) -> None:
    experiment = sigmod2006.experiments(sigmod2006.SCALES["tiny"])[0]
    result = verdicts.evaluate(experiment, [point] * 3, [])
    assert {"sma / scan, IND, k=20", "tma / tsl, IND, k=20"} <= {verdict.what for verdict in result}
    without = replace(point, runs={"scan": point.runs["scan"]})
    assert verdicts.evaluate(experiment, [without] * 3, []) == []


def test_listing_names_every_bench() -> None:
    assert [line.partition(":")[0] for line in runner.listing().splitlines()] == list(runner.BENCHES)
