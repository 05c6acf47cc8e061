"""Arrow tables as pandas and polars frames: either library may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topwatch.query.errors import TopwatchError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a table as a pandas data frame.

    >>> import pyarrow as pa
    >>> to_pandas(pa.table({"id": ["a"], "score": [1.5]}))
      id  score
    0  a    1.5
    """
    try:
        import pandas as pd  # noqa: F401
    except ImportError as error:
        raise _missing("pandas") from error
    return table.to_pandas()


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Return a table as a polars data frame.

    >>> import pyarrow as pa
    >>> to_polars(pa.table({"id": ["a"], "score": [1.5]})).row(0)
    ('a', 1.5)
    """
    try:
        import polars as pl
    except ImportError as error:
        raise _missing("polars") from error
    return pl.DataFrame(table)


def _missing(library: str) -> TopwatchError:
    return TopwatchError(f"to_{library}: {library} is missing; pip install 'topwatch[{library}]' brings it")
