"""The command line: parse, call, print. What a command needs is imported inside it, so that ``--help`` is instant."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from topwatch import __version__
from topwatch.cli.cache import cache
from topwatch.query.errors import PipelineError, TopwatchError
from topwatch.query.extras import STREAMS, missing, require

INTERRUPTED = 130
KIND = click.Choice(["ind", "ant", "cor", "clustered"])
SEED = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same rows.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="topwatch", message="%(prog)s %(version)s")
def cli() -> None:
    """Keep standing top-k queries over streams up to date."""


cli.add_command(cache)


@cli.command()
@click.argument("kind", type=click.Choice([*KIND.choices, "flows"]))
@click.option("--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="How many rows.")
@click.option("--dims", type=click.IntRange(min=1), default=4, show_default=True, help="How many columns x1 .. xd.")
@SEED
@click.option("--out", required=True, help="A .parquet, .csv or .arrow file; - is CSV on standard output.")
@click.option("--force", is_flag=True, help="Replace the file if there is one.")
def generate(kind: str, rows: int, dims: int, seed: int, out: str, force: bool) -> None:
    """Write generated rows: independent, anti-correlated, correlated or clustered, or network flows.

    Columns are id (1, 2, 3 ...) and x1 .. xd, values in [0, 1]. Flows have the columns flow, bytes, packets and
    seconds; after 600,000 rows a flood of packets begins to build up.
    """
    from topwatch.datagen import files

    target = sys.stdout.buffer if out == "-" else Path(out)
    # A progress display among rows on the same screen helps nobody.
    visible = sys.stderr.isatty() and not (out == "-" and sys.stdout.isatty())
    with _progress(f"generate {kind}", rows, visible) as advance:
        files.write(target, kind, rows, dims, seed, force=force, progress=advance)
    if isinstance(target, Path):
        columns = "" if kind == "flows" else f" {dims} columns,"
        click.echo(f"{out}: {rows:,} rows of {kind},{columns} seed {seed}")


@cli.command()
@click.option("--kind", type=KIND, default="ind", show_default=True)
@click.option("--rows", type=click.IntRange(min=1), help="Stop after so many rows.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after so many seconds.")
@click.option("--rate", type=click.FloatRange(min=1), help="Rows per second; as fast as it goes when left out.")
@click.option("--window", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="How many rows count.")
@click.option("--algorithm", default="auto", show_default=True, help="What serves the queries, for example sma.")
@SEED
def demo(
    kind: str, rows: int | None, seconds: float | None, rate: float | None, window: int, algorithm: str, seed: int
) -> None:
    """Watch a generated stream with ten standing queries.

    In a terminal it fills the screen until Ctrl-C, --rows or --seconds ends it. In a pipe or a log it prints a line a
    second, for ten seconds when no other end is given.
    """
    from topwatch.datagen import generators
    from topwatch.live.demo import start
    from topwatch.live.terminal import watch

    parts = generators.stream(kind, 4, seed, batch=4 * generators.BLOCK, rows=rows)
    batches = ({f"x{i}": column for i, column in enumerate(part, 1)} for part in parts)
    title = f"demo: the last {window:,} rows of {kind}, seed {seed}"
    watch(lambda: start(batches, window, algorithm, rate), title, seconds, endless=rows is None)


@cli.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--scale", type=click.Choice(["tiny", "small", "paper"]), default="small", show_default=True)
@click.option("--only", default="", help="Some experiments of a bench, separated by commas: defaults,k")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="bench-results",
    show_default=True,
    help="A folder for JSON and, with matplotlib, pictures.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same rows and queries."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="A folder with data sets: luce, covtype, zillow, nycflights13, worldcup98-snapshots.",
)
@click.option("--list", "show", is_flag=True, help="List the benches and their experiments.")
def bench(names: tuple[str, ...], scale: str, only: str, out: Path, seed: int, data: Path | None, show: bool) -> None:
    """Measure the papers' experiments; all of them when no NAME is given.

    The algorithms' answers are compared while they are timed: where they differ, the exit code is 1. The scale small
    takes a few minutes for a bench, paper an hour or more; sigmod2009 takes longest.
    """
    runner = _benchmarks()
    if show:
        click.echo(runner.listing())
        return
    chosen = [name.strip() for name in only.split(",") if name.strip()]
    agreed = runner.run(
        names, scale, chosen, out, seed, lambda title, total: _progress(title, total, sys.stderr.isatty()), data
    )
    if not agreed:
        click.echo("topwatch: the answers of algorithms differ", err=True)
        click.get_current_context().exit(1)


def _benchmarks() -> Any:
    """Return the experiments: they are a part of the repository, and not of the installed package."""
    root = Path(__file__).parents[3]
    if (root / "benchmarks" / "runner.py").exists() and str(root) not in sys.path:
        sys.path.insert(0, str(root))
        # Spark's Python processes, and those that an experiment starts, import it too.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    if importlib.util.find_spec("benchmarks") is None:
        raise click.ClickException(
            "the experiments are not in the installed package: clone the repository, install it with "
            "`pip install --editable '.[bench]'` and run `topwatch bench` there"
        )
    return importlib.import_module("benchmarks.runner")


CONF = click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark. May be given several times."
)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@CONF
def check(file: Path, conf: tuple[str, ...]) -> None:
    """Say what is wrong with a pipeline, with line and field, and start nothing.

    Give it the --conf that the run will have: they may bring connectors and drivers.
    """
    from topwatch.spark.pipeline.config import summary
    from topwatch.spark.pipeline.config.reading import read

    click.echo(f"{file}: fine – {summary.in_a_line(read(file, _pairs('--conf', conf)))}")


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
def explain(file: Path) -> None:
    """Say what a pipeline reads, keeps and writes, and which algorithm serves which query. Starts nothing."""
    from topwatch.spark.pipeline.config import summary
    from topwatch.spark.pipeline.config.reading import read

    click.echo(summary.in_full(read(file)))


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--master", help="Spark's master, for example spark://host:7077; all cores of this machine by default.")
@CONF
@click.option("--once", is_flag=True, help="Read what there is now, then stop.")
def run(file: Path, master: str | None, conf: tuple[str, ...], once: bool) -> None:
    """Run a pipeline on Spark.

    It runs until Ctrl-C, which stops it cleanly; the next run goes on where it stopped.
    """
    require(*STREAMS)
    from topwatch.live.run_view import view_of
    from topwatch.spark.pipeline import runner
    from topwatch.spark.pipeline.config import summary
    from topwatch.spark.pipeline.config.reading import read

    settings = _pairs("--conf", conf)
    pipeline = read(file, settings)
    title = f"{file}: {summary.in_a_line(pipeline)}"
    # What goes to the console shares the terminal with the view.
    with view_of(title, pipeline.monitor().queries, alone=pipeline.sink.kind != "console") as view:
        runner.run(pipeline, view, master, settings, once)


@cli.command()
@click.argument("name", required=False)
@click.option("--from", "source", type=click.Path(path_type=Path), help="The folder that has NAME.parquet.")
@click.option("--out", type=click.Path(path_type=Path), help="The folder to make: Parquet files in the stream's order.")
@click.option("--set", "options", multiple=True, metavar="NAME=VALUE", help="An option of the data set; see --list.")
@click.option("--rows-per-file", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--force", is_flag=True, help="Replace an earlier result.")
@click.option("--list", "show", is_flag=True, help="List the data sets, with their options.")
def dataset(
    name: str | None,
    source: Path | None,
    out: Path | None,
    options: tuple[str, ...],
    rows_per_file: int,
    force: bool,
    show: bool,
) -> None:
    """Turn a data set into a stream of files, with Spark: cleaned, scaled, in order."""
    from topwatch.spark import datasets

    if show:
        click.echo(datasets.listing())
        return
    if name is None or source is None or out is None:
        raise click.UsageError("needed are NAME, --from and --out; --list says which data sets there are.")
    settings: dict[str, Any] = _pairs("--set", options)
    job = datasets.plan(name, source, out, rows_per_file=rows_per_file, force=force, **settings)
    from topwatch.spark.pipeline.launch import start_spark

    spark = start_spark(None)
    try:
        click.echo(job.run(spark))
    finally:
        spark.stop()


@cli.group()
def edge() -> None:
    """Skylines over many devices with few messages, over an MQTT 5 broker."""


def _broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where the broker is, and hand it the broker."""

    @functools.wraps(command)
    def with_broker(**given: Any) -> None:
        from topwatch.edge.mqtt.connection import Broker

        names = ("host", "port", "user", "password", "tls", "ca", "certificate", "key")
        command(broker=Broker(**{name: given.pop(name) for name in names}), **given)

    options = (
        click.option("--host", default="127.0.0.1", show_default=True, help="Where the broker is."),
        click.option("--port", type=click.IntRange(1, 65535), default=1883, show_default=True),
        click.option("--user", help="A user name for the broker."),
        click.option("--password", envvar="TOPWATCH_MQTT_PASSWORD", help="Better set TOPWATCH_MQTT_PASSWORD."),
        click.option("--tls", is_flag=True, help="Encrypt, and check the broker's certificate."),
        click.option("--ca", type=click.Path(exists=True), help="Whom to trust instead of the system's authorities."),
        click.option("--certificate", type=click.Path(exists=True), help="Who we are."),
        click.option("--key", type=click.Path(exists=True), help="The key of --certificate."),
        click.option("--prefix", default="topwatch", show_default=True, help="The beginning of all topics."),
    )
    result: Callable[..., None] = with_broker
    for option in reversed(options):
        result = option(result)
    return result


@edge.command()
@click.option(
    "--prefer", multiple=True, required=True, metavar="NAME=min|max", help="A column, in order; several times."
)
@click.option("--method", default="filter", show_default=True, help="naive, filter, sampling or hybrid.")
@click.option("--share", type=float, default=0.8, show_default=True, help="Frequent: in that share of skylines.")
@click.option("--window", type=int, default=1000, show_default=True, help="Of so many timestamps.")
@click.option("--epsilon", type=float, default=0.2, show_default=True, help="Error of a method that samples.")
@click.option("--delta", type=float, default=0.1, show_default=True, help="Its confidence.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of its schedule.")
@click.option("--every", type=float, default=1.0, show_default=True, help="Seconds between timestamps.")
@click.option("--patience", type=float, default=0.1, show_default=True, help="Seconds of silence that end a timestamp.")
@click.option("--ticks", type=click.IntRange(min=1), help="Stop after so many timestamps.")
@click.option("--state", type=click.Path(path_type=Path, dir_okay=False), help="A file that outlives restarts.")
@_broker_options
def coordinator(
    broker: Any,
    prefix: str,
    prefer: tuple[str, ...],
    method: str,
    every: float,
    patience: float,
    ticks: int | None,
    state: Path | None,
    **guarantee: Any,
) -> None:
    """Announce timestamps, receive the messages of devices and publish the skyline and the frequent skyline, retained.

    Prints a line for each timestamp, and on standard error which devices are refused, and why: at most once a minute
    for the same device and reason.
    """
    from topwatch.edge.mqtt.coordinator import Coordinator
    from topwatch.edge.protocol import Server

    server = Server(_pairs("--prefer", prefer), method, **guarantee)
    running = Coordinator(server, broker, prefix, every, patience, state=state)
    running.start()
    try:
        running.run(ticks, _show)
    finally:
        running.stop()


def _show(result: Any) -> None:
    for line in result.refusals:  # before the line that counts them, after which a user may interrupt
        click.echo(f"topwatch: {line}", err=True)
    click.echo(result.line())


@edge.command()
@click.argument("id")
@click.option("--columns", type=click.IntRange(1, 32), required=True, help="How many values a line has.")
@_broker_options
def agent(broker: Any, prefix: str, id: str, columns: int) -> None:
    """Speak for the device ID: its values are the last line of standard input, numbers with commas or spaces.

    The device leaves when the input ends. It also leaves, with an error and exit code 2, at a line that cannot be used
    and when the coordinator or the broker refuses it.
    """
    from topwatch.edge.mqtt.agent import Agent
    from topwatch.edge.mqtt.last_line import LastLine, separate

    last = LastLine(separate(sys.stdin), columns)
    Agent(id, columns, lambda tick: last.values, broker, prefix).run(last.follow)


def _pairs(option: str, items: tuple[str, ...]) -> dict[str, str]:
    """Read options of the form NAME=VALUE."""
    result = {}
    for item in items:
        name, given, value = item.partition("=")
        if not given or not name:
            raise click.UsageError(f"{option}: expected NAME=VALUE, got {item!r}.")
        result[name.strip()] = value.strip()
    return result


@contextmanager
def _progress(title: str, total: int, visible: bool) -> Iterator[Callable[[int], None]]:
    if not visible:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(title, total=total)
        yield lambda done: display.advance(task, done)


def main() -> NoReturn:
    """Run the command line; an error is one line on standard error and exit code 2, a bad pipeline one per problem."""
    try:
        # click returns the code of --help and --version instead of raising it in this mode
        sys.exit(cli.main(standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "topwatch"
        _fail(f"{error.format_message()} See {command} --help.")
    except click.ClickException as error:
        _fail(error.format_message())
    except PipelineError as error:
        _fail(*error.args)
    except TopwatchError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        known = missing(error.name or "")
        if known is None:
            raise
        _fail(str(known))
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}")
    except (click.Abort, KeyboardInterrupt):
        click.echo("topwatch: interrupted", err=True)
        sys.exit(INTERRUPTED)


def _fail(*messages: str) -> NoReturn:
    for message in messages:
        click.echo("topwatch: " + " ".join(message.split()), err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
