"""`dir(topwatch)` shows the product and nothing else, and every name of it is there."""

from __future__ import annotations

import types

import topwatch as tw


def test_every_name_is_there() -> None:
    assert dir(tw) == sorted(["__version__", "skyline", "spark", *tw.__all__])
    for name in tw.__all__:
        assert not isinstance(getattr(tw, name), types.ModuleType)
    assert {"Monitor", "PipelineError", "TopK", "last"} <= set(tw.__all__)
