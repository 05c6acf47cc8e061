"""A quicker start of Spark's Python processes: Python runs this before anything else, in a folder that is on its path.

Spark puts its Python code on the path as a zip file, from which nothing is ever kept compiled: each process that Spark
starts compiles PySpark again, which takes a second. Where PySpark was installed by pip, the same files lie compiled
beside that zip file, and here they come first.

And one process makes all others as copies of itself: what it has loaded, they need not load. (Not Arrow, which starts a
thread when it is loaded: threads are not copied.)
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def installed_first(path: list[str], home: str) -> list[str]:
    """Return a path on which the zip files of an installed PySpark come last.

    >>> installed_first(["/nowhere/python/lib/pyspark.zip", "/rows"], "/nowhere")  # not installed by pip
    ['/nowhere/python/lib/pyspark.zip', '/rows']
    """
    if os.path.dirname(home) not in path or not os.path.isfile(os.path.join(home, "__init__.py")):
        return path
    zipped = [entry for entry in path if entry.startswith(os.path.join(home, "python", "lib"))]
    return [entry for entry in path if entry not in zipped] + zipped


def _next_one() -> None:
    """Run the file of this name that Python would have run without this one."""
    rest = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    result = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if result is not None and result.loader is not None:
        result.loader.exec_module(importlib.util.module_from_spec(result))


def _load_for_all() -> None:
    """Load what most workers need."""
    with contextlib.suppress(ImportError):  # the module that needs it reports it
        importlib.import_module("topwatch.algorithms.topk.grouped_engine")
        importlib.import_module("topwatch.algorithms.topk.reserve")
        importlib.import_module("topwatch.algorithms.topk.kernels.prune")


if __name__ == "sitecustomize":
    sys.path[:] = installed_first(sys.path, os.environ.get("SPARK_HOME", ""))
    _next_one()
    if "pyspark.daemon" in sys.orig_argv:
        _load_for_all()
