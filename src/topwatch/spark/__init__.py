"""topwatch on Spark. Importing this package does not import pyspark: names that need it are imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

from topwatch.query.extras import STREAMS, require

# name → module that has it
_LAZY = {
    "watch": "topwatch.spark.watching",
    "explain": "topwatch.spark.watching",
    "chunks": "topwatch.spark.source_frames",
    "top": "topwatch.spark.static.best_rows",
    "skyline": "topwatch.spark.static.best_rows",
    "skyband": "topwatch.spark.static.best_rows",
    "dominating": "topwatch.spark.static.best_rows",
    "register": "topwatch.spark.sql",
    "shuffled": "topwatch.spark.session",
    "SETTINGS": "topwatch.spark.session",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require(*STREAMS)
    result = getattr(importlib.import_module(_LAZY[name]), name)
    # Importing the submodule has just set an attribute of the same name: from now on it is the function.
    globals()[name] = result
    return result
