"""Types of columns: what is ranked has to be numbers, and what is a time a timestamp or a number.

Only types that Spark is certain to refuse are reported. Those of Parquet files on this machine are read
from the files' own schema: no Spark is needed.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from topwatch.query.queries import IncompleteTopK
from topwatch.spark.pipeline.config.query_models import QueryModel
from topwatch.spark.pipeline.config.source_models import Files
from topwatch.spark.pipeline.config.yaml_nodes import FieldPath

TEXT = frozenset({"string", "varchar", "char", "character"})
TIMESTAMPS = frozenset({"timestamp", "timestamp_ltz", "timestamp_ntz"})
OTHERS = frozenset({"boolean", "date", "binary", "array", "map", "struct", "interval", "variant", "void"})
NUMBERS = frozenset(
    {"byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint", "float", "real", "double"}
)
DECIMALS = frozenset({"decimal", "dec", "numeric"})

# Options of Spark's that choose among files: those that are looked at may not be the ones that are read.
CHOOSING = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter"})


def misfits(
    queries: Mapping[int, QueryModel],
    types: Mapping[str, str],
    time: str | None,
    lateness: bool,
    converted: str | None = None,
    where: str = "",
) -> Iterator[tuple[FieldPath, str]]:
    """Yield the path of each column whose type cannot be used, and what is wrong.

    Parameters
    ----------
    queries : mapping
        Queries by their index.
    types : mapping
        Names of columns and the first words of their types in Spark, as far as they are known.
    time : str or None
        The time column.
    lateness : bool
        Whether the time column gets a watermark.
    converted : str or None
        The value column of chunks, which Spark converts to a number.
    where : str
        Where the types are from, for the message.
    """
    kind = types.get(time, "") if time is not None else ""
    refused = TEXT | OTHERS | DECIMALS | (NUMBERS if lateness else frozenset())
    if kind in refused:
        expected = "timestamps, which lateness needs" if lateness else "timestamps or numbers"
        yield ("time",), f"column {time!r} is {kind}{where}; expected {expected}"
    for index, query in queries.items():
        built = query.built
        gathered = {built.source} if isinstance(built, IncompleteTopK) else set()
        for path, column in query.columns():
            kind = types.get(column, "")
            if kind in TEXT | TIMESTAMPS | OTHERS and column not in gathered and column != converted:
                yield ("queries", index, *path), f"column {column!r} is {kind}{where}; expected numbers"


def of_parquet(part: Files) -> tuple[dict[str, str], str]:
    """Return the types on which Parquet files of this machine agree, and the name of one of these files.

    Types that are not certain to be refused are left out; nothing is known where there is no file or none can be read.
    """
    paths = _paths(part)
    if not paths:
        return {}, ""
    try:
        first, last = (pq.read_schema(path) for path in (paths[0], paths[-1]))
    except (OSError, pa.ArrowException):
        return {}, ""
    kinds = {name: _kind(first.field(name).type) for name in first.names if first.names.count(name) == 1}
    same = {
        name for name in kinds if last.get_field_index(name) >= 0 and last.field(name).type == first.field(name).type
    }
    folders = {step.partition("=")[0] for step in paths[0].split(os.sep) if "=" in step}  # columns of their own
    return {name: kind for name, kind in kinds.items() if kind and name in same - folders}, paths[0]


def in_nanoseconds(part: Files) -> tuple[str, str] | None:
    """Return a column of Parquet files that Spark refuses, times in nanoseconds, and the name of a file with it."""
    for path in _paths(part)[:1]:
        try:
            schema = pq.read_metadata(path).schema
        except (OSError, pa.ArrowException):
            break
        for column in (schema.column(index) for index in range(len(schema))):
            kind = str(column.logical_type)
            if kind.startswith("Timestamp") and "nanoseconds" in kind:
                return column.path, path
    return None


def _paths(part: Files) -> list[str]:
    """Return the files that there are now, in the order of their names."""
    if part.format != "parquet" or part.ddl is not None or "://" in part.path or part.path.startswith("file:"):
        return []
    if CHOOSING & {option.lower() for option in part.options}:
        return []
    files: list[str] = []
    for path in glob.glob(part.path):
        if os.path.isdir(path):
            files += glob.glob(os.path.join(glob.escape(path), "**", "*.parquet"), recursive=True)
        else:
            files.append(path)
    return sorted(path for path in files if os.path.isfile(path) and not os.path.basename(path).startswith(("_", ".")))


def _kind(kind: pa.DataType) -> str:
    """Return what Spark calls a type of Arrow's; empty where that is not certain or makes no difference."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    named = {
        "string": (pa.types.is_string, pa.types.is_large_string),
        "boolean": (pa.types.is_boolean,),
        "date": (pa.types.is_date,),
        "timestamp": (pa.types.is_timestamp,),
        "array": (pa.types.is_list, pa.types.is_large_list),
        "struct": (pa.types.is_struct,),
        "map": (pa.types.is_map,),
        "decimal": (pa.types.is_decimal,),
        "double": (pa.types.is_floating,),
    }
    return next((name for name, tests in named.items() if any(test(kind) for test in tests)), "")
