"""topwatch on Spark. Importing this package does not import pyspark: only what needs it does, when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

# name → module that has it
_LAZY = {
    "watch": "topwatch.spark.watching",
    "chunks": "topwatch.spark.gathering",
    "top": "topwatch.spark.tables",
    "skyline": "topwatch.spark.tables",
    "skyband": "topwatch.spark.tables",
    "dominating": "topwatch.spark.tables",
    "register": "topwatch.spark.table_functions",
    "shuffled": "topwatch.spark.shuffles",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_LAZY[name]), name)
    # Importing the submodule has just set an attribute of the same name: from now on it is the function.
    globals()[name] = found
    return found
