"""Conformance data, when it is there: shipped production programs and plans end with every byte right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hetesynth.engine.run import RunRequest, run_file
from hetesynth.execute.job import RunOptions


def _data() -> Path:
    given = os.environ.get("HETESYNTH_CONFORMANCE")
    return Path(given) if given else Path(__file__).parents[3] / "shared" / "data"


PROGRAMS = sorted((_data() / "msccl_xml").glob("*.xml"))
PLANS = sorted((_data() / "mscclpp_plans").glob("*.json"))


SPLITS_TOO_MUCH = {"mscclang-ag_rd_8"}
"""Both ends send four chunks before they receive: four messages where a chunk fills one, and two slots."""


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAMS, reason="no conformance data")
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_shipped_programs_run_right_in_one_pass_and_in_several(path: Path) -> None:
    whole = run_file(RunRequest(path, RunOptions(), backend="inprocess"))
    assert whole is not None and whole.correct and whole.passes == 1
    for slots in (None, 8):
        options = RunOptions(message_bytes=2048, dtype="int32", seed=3, slots=slots)
        cut = run_file(RunRequest(path, options, backend="inprocess"))
        assert cut is not None and cut.passes == 2
        assert cut.correct or (slots is None and path.stem in SPLITS_TOO_MUCH and cut.runs[0].ending == "stall")


@pytest.mark.slow
@pytest.mark.skipif(not PLANS, reason="no conformance data")
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_shipped_plans_run_right(path: Path) -> None:
    report = run_file(RunRequest(path, RunOptions(), backend="inprocess"))
    assert report is not None and report.correct
