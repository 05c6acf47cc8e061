"""Monitors report what they reported when the recording was made."""

from __future__ import annotations

import json

import pytest

from tests.support import ROOT
from tests.support.recordings import Case, cases, digest

RECORDED = json.loads((ROOT / "tests" / "recordings" / "monitors.json").read_text())
CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_reports_are_those_of_the_recording(case: Case) -> None:
    assert digest(case) == RECORDED[case.name]


def test_every_recorded_case_is_run() -> None:
    assert {case.name for case in CASES} == set(RECORDED)
