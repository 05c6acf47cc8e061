"""`dir(topwatch)` shows the product and nothing else, and every name of it is there."""

from __future__ import annotations

import subprocess
import sys
import types

import topwatch as tw


def test_every_name_is_there() -> None:
    assert dir(tw) == sorted(["__version__", "skyline", "spark", *tw.__all__])
    for name in tw.__all__:
        assert not isinstance(getattr(tw, name), types.ModuleType)
    assert {"Monitor", "PipelineError", "TopK", "last"} <= set(tw.__all__)


def test_a_fresh_process_sees_the_same_names() -> None:
    """Before and after they are used, and modules of the package are no names of it."""
    program = """
import sys, topwatch as tw
assert not {"numba", "numpy", "pandas", "polars", "pyarrow"} & set(sys.modules)
before = dir(tw)
m = tw.Monitor([tw.TopK(1, "x")], window=tw.last(2))
assert dir(tw) == before
print(tw.__version__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", f"{tw.__version__}\n")
