"""Where in which file a row was, so that the order of rows does not depend on how Spark cuts files into partitions.

Rows of one block of a file follow each other in one partition. Blocks stand in the order of the files' times, then of
their names (of a hash of them), then as they lie in the file. Every column more that travels with each row is felt, so
that this is packed into two numbers: 42 bits of the time in milliseconds and 22 of the hash, then 40 bits of the
block's first byte and 24 more of the hash. Files of the same time and the same 22 bits stand block by block.
"""

from __future__ import annotations

from typing import Any

PLACES = ("_file", "_block")


def file_places() -> list[Any]:
    """Return the columns, for a frame that reads files."""
    from pyspark.sql import functions as sf

    name = sf.xxhash64("_metadata.file_path")
    time = sf.unix_millis("_metadata.file_modification_time")
    start = sf.col("_metadata.file_block_start").cast("bigint")
    return [
        (sf.shiftleft(time, 22) + name.bitwiseAND(sf.lit((1 << 22) - 1))).alias(PLACES[0]),
        (sf.shiftleft(start, 24) + sf.shiftrightunsigned(name, 40)).alias(PLACES[1]),
    ]
