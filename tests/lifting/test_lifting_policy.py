"""The thresholds of lifting are handed in: fewer rounds of justification leave a longer schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.lowering_cases import case

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.schedule import Schedule
from hetesynth.policy import DEFAULT
from hetesynth.policy.lifting import LiftingPolicy
from hetesynth.programs.lifting.lift import lift, lift_schedule
from hetesynth.programs.msccl.lower import LoweringOptions, lower


def lifted(policy: LiftingPolicy) -> Schedule:
    problem, schedule = case("star5", "alltoall", 2)
    result = lift_schedule(problem, schedule, problem, policy)
    assert schedule_violations(result.problem, result.schedule) == []
    return result.schedule


@pytest.mark.parametrize("changed", [{"justification_rounds": 0}, {"justified_moves": 0}])
def test_rounds_shorten_a_schedule(changed: dict[str, int]) -> None:
    assert lifted(replace(DEFAULT.lifting, **changed)).makespan > lifted(DEFAULT.lifting).makespan


def test_noise_changes_which_schedules_are_tried() -> None:
    one_round = replace(DEFAULT.lifting, justification_rounds=1)
    schedules = {lifted(replace(one_round, start_noise=noise)).transfers for noise in (0.0, 2.0, 50.0)}
    assert len(schedules) > 1


def test_the_policy_reaches_the_lifting_of_a_program() -> None:
    problem, schedule = case("star5", "alltoall", 2)
    program = lower(problem, schedule, LoweringOptions("x"))
    quick = replace(DEFAULT.lifting, justification_rounds=0)
    assert (
        lift(program, problem.collective, on=problem, policy=quick).schedule.makespan
        >= lift(program, problem.collective, on=problem).schedule.makespan
    )
