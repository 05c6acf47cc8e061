"""Where in which file a row was, so that the order of rows does not depend on how Spark cuts files into partitions.

Rows of one block of a file follow each other in one partition; blocks stand in the order of the files' times, then of
their names (of a hash of them: a number is cheap to carry), then as they lie in the file.
"""

from __future__ import annotations

from typing import Any

PLACES = ("_file_time", "_file_name", "_file_start")


def file_places() -> list[Any]:
    """Return the columns, for a frame that reads files."""
    from pyspark.sql import functions as sf

    columns = (
        sf.unix_micros("_metadata.file_modification_time"),
        sf.xxhash64("_metadata.file_path"),
        sf.col("_metadata.file_block_start"),
    )
    return [column.alias(name) for name, column in zip(PLACES, columns, strict=True)]
