"""Gates of each kind against figures, and figures against records that anybody edited."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from hetesynth.deploy.figures import Figures, SizeFigures, figures, gate_verdict
from hetesynth.deploy.manifest.values import Cell, Gates
from hetesynth.model.size_range import SizeRange

RANGE = SizeRange(1000, 64_000, "1KB..64KB")
ROWS = (
    SizeFigures(1000, 10.0, 74.13, 1.5, ""),
    SizeFigures(8000, 11.0, 90.0, None, "5 ranks are more than the 4"),
    SizeFigures(64_000, 12.0, 99.99, 0.97, ""),
)
FIGURES = Figures(7, False, ROWS)


def cell(**gates: Any) -> Cell:
    return Cell("c", "allgather", RANGE, "rccl-6", gates=Gates(**gates))


def test_percent_of_the_limit_holds_at_every_size() -> None:
    assert gate_verdict(cell(percent_of_limit=74.13), FIGURES).failures == ()
    assert gate_verdict(cell(percent_of_limit=80.0), FIGURES).failures == (
        "percent_of_limit at 1 KB: 74.13 is less than 80",
    )
    assert len(gate_verdict(cell(percent_of_limit=95.0), FIGURES).failures) == 2


def test_rings_that_are_not_known_are_said_and_do_not_count() -> None:
    verdict = gate_verdict(cell(factor_over_library=0.9), FIGURES)
    assert not verdict.failures
    assert verdict.notes == ("factor_over_library does not apply at 8 KB: 5 ranks are more than the 4",)
    assert gate_verdict(cell(factor_over_library=1.0), FIGURES).failures == (
        "factor_over_library at 64 KB: 0.97 is less than 1",
    )
    alike = replace(FIGURES, sizes=(replace(ROWS[0], factor_over_library=0.991),))
    assert not gate_verdict(cell(factor_over_library=1.0), alike).failures
    assert gate_verdict(cell(factor_over_library=1.01), alike).failures


@pytest.mark.parametrize(
    ("proven_optimal", "percent", "met"),
    [
        (True, 50.0, True), (False, 100.0, True), (False, math.nextafter(100.0, 0.0), True),
        (False, 99.998, False),
    ],
)  # fmt: skip
def test_proven_by_steps_or_at_some_size(proven_optimal: bool, percent: float, met: bool) -> None:
    rows = (*ROWS, replace(ROWS[0], percent_of_limit=percent))
    shown = replace(FIGURES, proven_optimal=proven_optimal, sizes=rows)
    assert (not gate_verdict(cell(proven=True), shown).failures) is met


def test_sizes_that_are_left_to_the_library_meet_every_gate_and_are_told() -> None:
    left = SizeFigures(1000, None, None, None, "", 8.0)
    asked = cell(percent_of_limit=99.0, factor_over_library=1.0, proven=True)
    verdict = gate_verdict(asked, replace(FIGURES, sizes=(left, left)))
    assert (verdict.failures, verdict.notes) == ((), ("left to the library: 1 KB, 1 KB",))
    assert len(gate_verdict(asked, replace(FIGURES, sizes=(left, ROWS[2]))).failures) == 2


RECORD = {
    "collective": "allgather", "files": {},
    "calls": [0, 63_999], "ranks": 4, "root": None, "chunks": 2, "steps": 7, "proven_optimal": False,
    "sizes": [
        {
            "size": 1000, "program_us": 10, "percent_of_limit": 74.13, "factor_over_library": 1.5,
            "no_library": None, "verdict": "whatever",
        }
    ],
}  # fmt: skip


EDITS: list[dict[str, Any]] = [
    *({"sizes": rows} for rows in ([], 1, [{}], [{"size": 1, "program_us": 0}], [{"size": 1, "program_us": "1"}])),
    *({"sizes": [{"size": 1, "program_us": 1, "percent_of_limit": value}]} for value in (math.nan, "9")),
    *({"calls": ["0", "1"]}, {"ranks": -1}, {"chunks": 2.5}, {"collective": []}, {"files": {"../a": "0" * 64}}),
    *({"cell": "a\nb"}, {"warnings": [{"code": {}}]}, {"programs": [{"name": 1}]}, {"versions": {"z3": 4}}),
    *({"proven_optimal": 1}, {"instead_of": {}}, {"measured_on": "x"}),
]


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_a_record_that_is_none_is_refused(edit: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"record|size|name|missing"):
        figures({**RECORD, **edit})
