"""What a CEGIS trace comes to, on traces whose sums are counted by hand."""

from __future__ import annotations

from hetesynth.model.cegis_trace import CegisEntry, totals


def entry(checkpoint: int | None, laws: int = 0, phase: str = "", steps: int = 3) -> CegisEntry:
    return CegisEntry(steps, "fill", checkpoint, laws=laws, phase=phase)


def test_the_first_counterexample_with_its_checkpoint() -> None:
    wrong = CegisEntry(4, "fill", 2, ("step 2: too much", "step 3: too much"), 7, phase="allgather")
    total = totals([entry(0), wrong, CegisEntry(4, "fill", 1, ("step 1: other",), 1)])
    assert total["counterexamples"] == 8
    assert total["first"] == {
        "phase": "allgather", "steps": 4, "checkpoint": 2, "counterexample": "step 2: too much",
    }  # fmt: skip
