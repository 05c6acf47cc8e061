"""Data sets as streams: Spark jobs that clean, scale, order and cut what the papers' experiments read.

A data set is a function of its name in :mod:`topwatch.spark.datasets.catalogue`, from the file's rows to those of the
stream; its keywords are the options.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topwatch.query.errors import DataError, QueryError, nearest_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from topwatch.spark.datasets.writing import About

DATASETS = {
    "covtype": "forest cover, ten attributes in [0, 1], in the order of the file",
    "kddcup99": "network connections in [0, 1], most of them several times; scale=log|linear",
    "luce": "readings of weather stations by time, clipped, in [0, 1]; percent=99.9",
    "nycflights13": "delays at three airports; delay=dep_delay|arr_delay, every='1 day', combine=sum|max",
    "worldcup98": "requests to a web site, or counts of them; shape=requests|snapshots, every='30 s', over='5 minutes'",
}
ROWS_PER_FILE = 10_000


@dataclass(frozen=True)
class Job:
    """A data set to be prepared, all that can be checked without Spark checked; made by :func:`plan`."""

    name: str
    file: Path
    out: Path
    rows_per_file: int
    options: Mapping[str, Any]

    def run(self, spark: SparkSession) -> About:
        """Prepare it; return what was done."""
        from topwatch.spark.datasets import catalogue, steps, writing

        about = writing.About(self.name, dict(self.options))
        with writing.settings(spark):
            frame = steps.read(spark, str(self.file), catalogue.COLUMNS[self.name], about)
            rows = getattr(catalogue, self.name)(frame, about, **self.options)
            writing.write(rows, self.out, self.rows_per_file, about)
        return about


def prepare(
    spark: SparkSession,
    name: str,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    rows_per_file: int = ROWS_PER_FILE,
    force: bool = False,
    **options: Any,
) -> About:
    """Turn a data set into a stream: a folder of Parquet files in order, and what was done in ``_about.json``.

    Parameters
    ----------
    spark : SparkSession
        The session to work with; the folders must be on its machine.
    name : str
        One of :data:`DATASETS`.
    source : path
        A folder that has ``<name>.parquet``.
    out : path
        The folder to make.
    rows_per_file : int
        Where the stream is cut.
    force : bool
        Replace the folder if it is an earlier result.
    **options
        Of the data set; :func:`listing` names them.

    Returns
    -------
    About
        Rows in and out, what was dropped and why, bounds.

    Notes
    -----
    Every row has an ``id`` and its ``position`` in the stream, from 0; most have a ``time``. The same input gives the
    same rows in the same files, however Spark cuts the work.
    """
    return plan(name, source, out, rows_per_file=rows_per_file, force=force, **options).run(spark)


def plan(
    name: str,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    rows_per_file: int = ROWS_PER_FILE,
    force: bool = False,
    **options: Any,
) -> Job:
    """Check the arguments of :func:`prepare`, before a Spark is started for it."""
    if name not in DATASETS:
        raise QueryError(f"dataset: accepted are {', '.join(DATASETS)}, got {name!r}{nearest_name(name, DATASETS)}")
    if isinstance(rows_per_file, bool) or not isinstance(rows_per_file, int) or rows_per_file < 1:
        raise QueryError(f"rows_per_file: expected a whole number of at least 1, got {rows_per_file!r}")
    from topwatch.spark.datasets import catalogue, writing

    known = inspect.signature(getattr(catalogue, name)).parameters
    accepted = [option for option, field in known.items() if field.kind is field.KEYWORD_ONLY]
    for option in options:
        if option not in accepted:
            names = f"accepted are {', '.join(accepted)}" if accepted else "it has none"
            raise QueryError(f"{name}: unknown option {option!r}; {names}{nearest_name(option, accepted)}")
    file = Path(source, f"{name}.parquet")
    if not file.is_file():
        raise DataError(f"from: there is no file {str(file)!r}")
    writing.check_folder(Path(out).absolute(), force)
    return Job(name, file.absolute(), Path(out).absolute(), rows_per_file, options)


def listing() -> str:
    """Return all data sets, a line each, with their options.

    >>> print(listing().splitlines()[0])
    covtype       forest cover, ten attributes in [0, 1], in the order of the file
    """
    return "\n".join(f"{name:13} {line}" for name, line in DATASETS.items())
