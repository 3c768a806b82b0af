"""What a CEGIS trace comes to, on traces whose sums are counted by hand."""

from __future__ import annotations

from hetesynth.model.cegis_trace import CegisEntry, totals


def entry(checkpoint: int | None, laws: int = 0, phase: str = "", steps: int = 3) -> CegisEntry:
    return CegisEntry(steps, "fill", checkpoint, laws=laws, phase=phase)


def test_a_checkpoint_moves_back_only_within_one_search() -> None:
    assert totals([entry(0), entry(2), entry(1), entry(1), entry(0)]).moved_back == 2
    assert totals([entry(2), entry(0, steps=4)]).moved_back == 0
    assert totals([entry(2, phase="reduce-scatter"), entry(0, phase="allgather")]).moved_back == 0
    assert totals([entry(None), entry(0), entry(None), entry(0)]).moved_back == 0


def test_each_law_counts_once_in_each_loop() -> None:
    assert totals([entry(0, 0), entry(0, 2), entry(0, 2), entry(0, 5)]).laws == 5
    assert totals([entry(0, 2), entry(0, 0), entry(0, 3)]).laws == 5, "fewer than before: another loop"
    assert totals([entry(0, 2), entry(0, 3, steps=4)]).laws == 5
    assert totals([entry(0, 2, "reduce-scatter"), entry(0, 2, "allgather")]).laws == 4


def test_the_first_counterexample_with_its_checkpoint() -> None:
    wrong = CegisEntry(4, "fill", 2, ("step 2: too much", "step 3: too much"), 7, phase="allgather")
    total = totals([entry(0), wrong, CegisEntry(4, "fill", 1, ("step 1: other",), 1)])
    assert total.counterexamples == 8
    assert total.plain()["first"] == {
        "phase": "allgather", "steps": 4, "checkpoint": 2, "counterexample": "step 2: too much",
    }  # fmt: skip
