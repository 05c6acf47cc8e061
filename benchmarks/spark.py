"""``topwatch bench spark``: the operator beside an identity ``mapInArrow`` over the same rows, in one run.

Every variant reads the same files, one for each micro-batch, and writes to a sink that does nothing. Variants take
turns. A stream's first micro-batch is apart: it loads code, and is measured in a process of its own, beside that of an
identity, after another one has compiled the kernels. The first repetition is not timed: Spark's virtual machine
compiles itself for a minute or two, and what the operator reports is counted on the way and compared with what monitors
say. Speeds are those of the median micro-batch; two variants are compared within each repetition, since a machine that
others use too is not always as fast, and the median repetition counts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import machine
from benchmarks.spark_variants import COLUMNS, SCALES, Size, Variant, queries, rows, variants, write_rows
from benchmarks.verdicts import Verdict
from topwatch.monitor.monitor import Monitor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.runner import Progress

EXPERIMENTS = ("stream", "start")
SHARE = 0.75  # of an identity's rows/s
GROUPED = 0.7
AIM = 0.9
SLOWER = 1.3  # times the time at the smaller window
BACK = 5.0  # seconds until a restarted stream has taken its first micro-batch
MORE = 2.0  # seconds on top of an identity's first micro-batch


@dataclass
class Times:
    """What a variant took."""

    first: list[float] = field(default_factory=list)  # seconds of first micro-batches
    repetitions: list[list[float]] = field(default_factory=list)  # seconds of the others, by repetition
    reported: list[list[int]] = field(default_factory=list)  # by repetition: changes, sums of at and of id

    @property
    def later(self) -> list[float]:
        """Seconds of all micro-batches after the first."""
        return [seconds for repetition in self.repetitions for seconds in repetition]

    def speed(self, batch: int) -> float:
        """Return rows per second after the first micro-batch."""
        return batch / float(np.median(self.later))

    def share(self, other: Times) -> float:
        """Return the speed as a share of another variant's: that of the median repetition."""
        pairs = zip(self.repetitions, other.repetitions, strict=True)
        return float(np.median([np.median(theirs) / np.median(ours) for ours, theirs in pairs]))


def run(scale: str, only: Sequence[str], out: Path, seed: int, progress: Progress, screen: Console) -> bool:
    """Measure, print and keep; return whether the changes were right."""
    size = SCALES[scale]
    folder = Path(tempfile.mkdtemp(prefix="topwatch-bench-"))
    try:
        write_rows(folder / "rows", size, seed)
        os.sync()  # so that the disk is not busy with it later
        evaluated: list[Verdict] = []
        wrong: list[str] = []
        content: dict[str, Any] = {"bench": "spark", "scale": scale, "seed": seed, "machine": machine.describe()}
        if not only or "start" in only:
            starts = _starts(folder, size, scale, seed, progress)
            evaluated += _evaluate_starts(starts)
            content["starts"] = starts
            screen.print(_start_table(starts))
        if not only or "stream" in only:
            measured, wrong = _streams(folder, size, seed, progress)
            evaluated += _evaluate(measured, size)
            content["streams"] = {name: asdict(times) for name, times in measured.items()}
            screen.print(_table(measured, size, seed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in wrong:
        screen.print(Text(line, style="bold white on red"))
    if size.has_targets:
        for verdict in evaluated:
            word = Text("met", style="green") if verdict.met else Text("MISSED", style="bold red")
            screen.print(Text.assemble(f"{verdict.what}: {verdict.measured}, asked {verdict.target}: ", word))
        screen.print(f"spark: {sum(v.met for v in evaluated)} of {len(evaluated)} targets met. Results are in {out}.")
    content |= {"verdicts": [asdict(verdict) for verdict in evaluated], "disagreements": wrong}
    (out / f"spark-{scale}.json").write_text(json.dumps(content, indent=1) + "\n")
    return not wrong


def session(partitions: int) -> SparkSession:
    """Start Spark on two cores, with the settings of ``topwatch run``."""
    from pyspark.sql import SparkSession

    from topwatch.spark.pipeline.launch import COMMAND_SETTINGS, on_one_machine

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    settings = {
        **COMMAND_SETTINGS,
        **on_one_machine(),
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stream(
    spark: SparkSession, variant: Variant, folder: Path, name: str, batches: int | None = None, count: bool = False
) -> Times:
    """Run a variant over the files, or over the next few of them, and time its micro-batches; or count its changes."""
    from pyspark.sql import functions as sf

    grouped = variant.options is not None and "by" in variant.options
    spark.conf.set("spark.sql.shuffle.partitions", "2" if grouped else "1")
    source = folder / "rows"
    if batches is not None:
        source = folder / f"{name}-rows"
        source.mkdir(exist_ok=True)
        for path in sorted((folder / "rows").iterdir())[:batches]:
            if not (source / path.name).exists():
                os.link(path, source / path.name)
    schema = spark.read.parquet(str(source)).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    result = variant.make(frame, str(folder / f"{name}-segments"))
    if variant.options is not None and count:
        totals = [sf.coalesce(sf.sum(column), sf.lit(0)).alias(column) for column in ("at", "id")]
        result = result.observe("reported", sf.count(sf.lit(1)).alias("changes"), *totals)
    writer = result.writeStream.format("noop").outputMode(variant.mode)
    query = writer.option("checkpointLocation", str(folder / f"{name}-checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    steps = [step for step in query.recentProgress if step["numInputRows"] > 0]
    seconds = [step["durationMs"]["triggerExecution"] / 1000 for step in steps]
    reported = [step["observedMetrics"]["reported"] for step in steps if "reported" in step["observedMetrics"]]
    sums = [sum(int(line[key]) for line in reported) for key in ("changes", "at", "id")]
    return Times(seconds[:1], [seconds[1:]], [sums] if reported else [])


def _streams(folder: Path, size: Size, seed: int, progress: Progress) -> tuple[dict[str, Times], list[str]]:
    """Let all variants take turns."""
    chosen = variants(size, seed)
    measured = {variant.name: Times() for variant in chosen}
    spark = session(1)
    try:
        with progress("spark stream", (size.repetitions + 1) * len(chosen)) as advance:
            for repetition in range(size.repetitions + 1):
                for number, variant in enumerate(chosen):
                    result = stream(
                        spark, variant, folder, f"{repetition}-{number}", variant.batches, count=repetition == 0
                    )
                    shutil.rmtree(folder / f"{repetition}-{number}-segments", ignore_errors=True)
                    times = measured[variant.name]
                    times.reported += result.reported
                    if repetition > 0:
                        times.first += result.first
                        times.repetitions += result.repetitions
                    advance(1)
    finally:
        spark.stop()
    wrong = []
    for variant in chosen:
        if variant.options is not None:
            wanted = _wanted(variant.options, size, seed)
            wrong += [
                f"CHANGES DIFFER in {variant.name}: {sums} on Spark, {wanted} from monitors"
                for sums in measured[variant.name].reported
                if sums != wanted
            ]
    return measured, wrong


def _wanted(options: dict[str, Any], size: Size, seed: int) -> list[int]:
    """Return how many changes monitors report, and the sums of their ``at`` and ``id``."""
    settings = {key: value for key, value in options.items() if key not in ("by", "algorithm")}
    by = options.get("by")
    sums = [0, 0, 0]
    if by is None:
        monitor = Monitor(queries(seed), **settings)
        for number in range(size.batches):
            _add(sums, monitor.push(rows(size, seed, number).select(COLUMNS)))
        return sums
    tables = [rows(size, seed, number) for number in range(size.batches)]
    groups = np.concatenate([table.column(by).to_numpy() for table in tables])
    columns = {name: np.concatenate([table.column(name).to_numpy() for table in tables]) for name in COLUMNS}
    order = np.argsort(groups, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        monitor = Monitor(queries(seed), **settings)
        _add(sums, monitor.push({name: column[mine] for name, column in columns.items()}))
    return sums


def _add(sums: list[int], changes: Any) -> None:
    table = changes.to_arrow()
    sums[0] += table.num_rows
    for index, name in enumerate(("at", "id"), 1):
        sums[index] += int(table.column(name).to_numpy().sum()) if table.num_rows else 0


def _starts(folder: Path, size: Size, scale: str, seed: int, progress: Progress) -> dict[str, float]:
    """Measure first micro-batches, each in a new process: an identity's, the operator's, and its after a restart."""
    result = {}
    with progress("spark start", 6) as advance:
        for number, variant in enumerate(("pruned", "whole window")):  # now all kernels are in the cache
            _in_a_process(folder, scale, seed, variant, f"compiled-{number}", 1)
            advance(1)
        for name, variant in (
            ("identity", "identity"),
            ("pruned", "pruned"),
            ("whole window", "whole window"),
            ("whole window again", "whole window"),
        ):
            label = "whole" if variant == "whole window" else variant
            count = 2 if name.endswith("again") or variant != "whole window" else 1
            first = _in_a_process(folder, scale, seed, variant, f"start-{label}", count)
            result[name] = first
            advance(1)
    return result


def _in_a_process(folder: Path, scale: str, seed: int, variant: str, name: str, batches: int) -> float:
    command = [sys.executable, "-m", "benchmarks.spark", str(folder), scale, str(seed), variant, name, str(batches)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])


def _evaluate_starts(starts: dict[str, float]) -> list[Verdict]:
    more = [starts[name] - starts["identity"] for name in ("pruned", "whole window")]
    again = starts["whole window again"]
    return [
        Verdict("first batch, beyond an identity's", f"at most {MORE:g} s", f"{max(more):.1f} s", max(more) <= MORE),
        Verdict("first batch after a restart", f"under {BACK:g} s", f"{again:.1f} s", again < BACK),
    ]


def _evaluate(measured: dict[str, Times], size: Size) -> list[Verdict]:
    result = []
    for variant in variants(size, 0):
        if variant.options is not None:
            share = measured[variant.name].share(measured[variant.beside])
            least = GROUPED if "by" in variant.options else SHARE
            what = f"{variant.name} / {variant.beside}"
            result.append(Verdict(what, f"at least {least:g} (aim {AIM:g})", f"{share:.2f}", share >= least))
    slower = measured["whole, small window"].share(measured["whole window"])
    what = f"time per batch, window {size.window:,} / {size.small:,}"
    return [*result, Verdict(what, f"at most {SLOWER:g}", f"{slower:.2f}", slower <= SLOWER)]


def _table(measured: dict[str, Times], size: Size, seed: int) -> Table:
    table = Table(
        title=f"{size.batches - 1} x {size.batch:,} rows after the first micro-batch, {size.repetitions}x, 2 cores",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("stream", "rows/s", "of identity", "median batch, s", "slowest, s", "reports"):
        table.add_column(heading, justify="left" if heading in ("stream", "reports") else "right")
    for variant in variants(size, seed):
        times = measured[variant.name]
        share = times.share(measured[variant.beside or variant.name])
        changes = f": {times.reported[0][0] / (size.batch * size.batches):.3g} per row" if times.reported else ""
        table.add_row(
            variant.name,
            f"{times.speed(size.batch):,.0f}",
            f"{share:.2f}",
            f"{np.median(times.later):.2f}",
            f"{max(times.later):.2f}",
            variant.says + changes,
        )
    return table


def _start_table(starts: dict[str, float]) -> Table:
    table = Table(title="First micro-batch of a new process", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("stream")
    table.add_column("seconds", justify="right")
    for name, seconds in starts.items():
        table.add_row(name, f"{seconds:.1f}")
    return table


def main() -> None:
    """Print the seconds of a variant's first micro-batch: what :func:`_in_a_process` runs."""
    from topwatch.spark.node import class_data

    folder, scale, seed, variant, name, batches = sys.argv[1:]
    chosen = {one.name: one for one in variants(SCALES[scale], int(seed))}
    spark = session(1)
    try:
        print(stream(spark, chosen[variant], Path(folder), name, int(batches)).first[0])
        class_data.keep()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
