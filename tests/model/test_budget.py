"""Budgets: what is left of the seconds; all else stays."""

from __future__ import annotations

import pytest

from hetesynth.model.problem import Budget

BUDGET = Budget(seconds=8.0, seed=3, strict_deadline=True, effort=2.0)


@pytest.mark.parametrize(("spent", "left"), [(0.0, 8.0), (3.0, 5.0), (8.0, 0.0), (9.5, 0.0)])
def test_what_is_left_of_a_budget_is_never_negative(spent: float, left: float) -> None:
    assert BUDGET.left_after(spent) == Budget(seconds=left, seed=3, strict_deadline=True, effort=2.0)


def test_a_part_of_a_budget_has_that_share_of_its_seconds() -> None:
    assert BUDGET.part(0.25) == Budget(seconds=2.0, seed=3, strict_deadline=True, effort=2.0)


def test_what_has_no_limit_has_none_afterwards() -> None:
    unlimited = Budget(seed=3)
    assert unlimited.left_after(1e9) == unlimited.part(0.5) == unlimited


def test_what_the_clock_decides_is_noted_in_the_same_record() -> None:
    for budget in (BUDGET.left_after(1.0), BUDGET.part(0.5)):
        assert budget.clock_decisions is BUDGET.clock_decisions
