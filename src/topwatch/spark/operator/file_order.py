"""Where in which file a row was, so that the order of rows does not depend on how Spark cuts files into partitions.

Rows of one block of a file follow each other in one partition. Blocks stand in the order of the files' times, then of
their offset in the file; blocks of files of the same moment stand as Spark has put them into partitions. Every column
that travels with each row costs time, so that this is one number, made without a division: 42 bits of the time in 1,024
microseconds, 22 of the megabyte in which the block begins (Spark makes blocks of four megabytes and more, unless it is
configured otherwise).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACES = ("_file_place",)


def file_places() -> list[Any]:
    """Return the columns, for a frame that reads files."""
    from pyspark.sql import functions as sf

    time = sf.shiftright(sf.unix_micros("_metadata.file_modification_time"), 10)
    megabyte = sf.shiftright(sf.col("_metadata.file_block_start"), 20)
    return [(sf.shiftleft(time, 22) + sf.least(megabyte, sf.lit((1 << 22) - 1))).alias(PLACES[0])]


def reads_files(df: DataFrame) -> bool:
    """Tell whether Spark knows from which files rows come."""
    # Trying it out would leave an error in Spark's log where it does not.
    hidden = df._jdf.queryExecution().analyzed().metadataOutput()
    return any(hidden.apply(i).name() == "_metadata" for i in range(hidden.size()))
