"""Where real data sets are, for the tests that want some: beside the project, or where TOPWATCH_DATA says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import ROOT

FOLDER = Path(os.environ.get("TOPWATCH_DATA", ROOT.parent / "shared" / "data"))


def real(name: str) -> Path:
    """Return the file of a data set; the test is skipped where there is none."""
    path = FOLDER / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not there; TOPWATCH_DATA names the folder of the data sets")
    return path
