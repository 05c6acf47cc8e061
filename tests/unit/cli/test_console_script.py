"""The installed console script, end to end."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import topwatch
from topwatch.datagen.generators import KINDS, generate

SCRIPT = Path(sys.executable).with_name("topwatch")


def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, timeout=120, check=False)


def refused(*arguments: object) -> str:
    """Run what must fail, and return its message."""
    done = run(*arguments)
    message = done.stderr.decode()
    assert done.returncode == 2, message
    assert done.stdout == b""
    assert message.startswith("topwatch: ")
    assert message.count("\n") == 1
    return message


def read(path: Path) -> pa.Table:
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(path)
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def check(table: pa.Table, kind: str, rows: int, dims: int, seed: int) -> None:
    assert table.column_names == ["id", *(f"x{i}" for i in range(1, dims + 1))]
    assert table["id"].to_pylist() == list(range(1, rows + 1))
    columns = np.stack([table[name].to_numpy() for name in table.column_names[1:]])
    np.testing.assert_array_equal(columns, generate(kind, rows, dims, seed))


def test_version() -> None:
    assert run("--version").stdout.decode() == f"topwatch {topwatch.__version__}\n"


def test_help_lists_every_kind() -> None:
    assert "{" + "|".join([*KINDS, "flows"]) + "}" in run("generate", "--help").stdout.decode()


def test_importing_the_command_line_is_light() -> None:
    heavy = {"numba", "pyarrow", "rich", "pandas", "polars", "matplotlib"}
    code = f"import sys, topwatch.cli.main; print(sorted(sys.modules.keys() & {heavy}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


@pytest.mark.parametrize(
    ("kind", "suffix"), [("ind", "parquet"), ("ant", "csv"), ("cor", "arrow"), ("clustered", "parquet")]
)
def test_generate_writes_the_rows_of_the_generator(tmp_path: Path, kind: str, suffix: str) -> None:
    out = tmp_path / f"rows.{suffix}"
    done = run("generate", kind, "--rows", 20_000, "--dims", 3, "--seed", 11, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    check(read(out), kind, 20_000, 3, 11)
    assert list(tmp_path.iterdir()) == [out]


def test_generate_writes_many_batches(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    assert run("generate", "ind", "--rows", 300_001, "--dims", 8, "--out", out).returncode == 0
    assert pyarrow.parquet.read_metadata(out).num_row_groups > 1
    check(read(out), "ind", 300_001, 8, 0)


def test_generate_to_standard_output() -> None:
    done = run("generate", "cor", "--rows", 1000, "--dims", 2, "--out", "-")
    assert done.returncode == 0
    check(pyarrow.csv.read_csv(io.BytesIO(done.stdout)), "cor", 1000, 2, 0)


def test_a_reader_that_leaves_is_no_crash() -> None:
    command = [SCRIPT, "generate", "ind", "--rows", "1000000", "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_same_seed_same_bytes(tmp_path: Path, suffix: str) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        run("generate", "ant", "--rows", 5000, "--seed", seed, "--out", tmp_path / f"{name}.{suffix}")
    a, b, c = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    out.write_text("precious")
    assert "exists already; --force replaces it" in refused("generate", "ind", "--rows", 10, "--out", out)
    assert out.read_text() == "precious"
    assert run("generate", "ind", "--rows", 10, "--out", out, "--force").returncode == 0
    check(read(out), "ind", 10, 4, 0)


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    assert "'foo' is not one of 'ind', 'ant', 'cor', 'clustered'" in refused("generate", "foo", "--out", out)
    assert "'--rows': 0 is not in the range x>=1" in refused("generate", "ind", "--rows", 0, "--out", out)
    assert "'--rows': 'many' is not a valid integer" in refused("generate", "ind", "--rows", "many", "--out", out)
    assert "'--seed'" in refused("generate", "ind", "--seed", -1, "--out", out)
    assert "dims: ant takes 2 to 20 columns, got 1" in refused("generate", "ant", "--dims", 1, "--out", out)
    assert "accepted .parquet, .csv, .arrow" in refused("generate", "ind", "--out", tmp_path / "rows.txt")
    assert "there is no folder" in refused("generate", "ind", "--out", tmp_path / "none" / "rows.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in refused("generate", "ind", "--force", "--out", tmp_path / "folder.csv")
    assert "Missing option '--out'" in refused("generate", "ind")
    assert "No such command 'generat'" in refused("generat")
    assert not out.exists()


@pytest.mark.parametrize(("suffix", "existing"), [("parquet", False), ("csv", False), ("arrow", False), ("csv", True)])
def test_interrupt_leaves_no_half_written_file(tmp_path: Path, suffix: str, existing: bool) -> None:
    out = tmp_path / f"rows.{suffix}"
    if existing:
        out.write_text("precious")
    command = [SCRIPT, "generate", "ind", "--rows", "1000000000", "--force", "--out", out]
    # A child inherits an ignored SIGINT, as when the tests run in the background, but not a handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        try:
            deadline = time.monotonic() + 60
            while not any(part.stat().st_size for part in tmp_path.glob(".*.part")):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, message = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    # click ends the line that a terminal has begun with ^C
    assert message == b"\ntopwatch: interrupted\n"
    assert list(tmp_path.iterdir()) == ([out] if existing else [])
    if existing:
        assert out.read_text() == "precious"
