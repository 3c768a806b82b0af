"""Work does not grow with a number that a file or an option states: it is worked out, bounded or ended."""

from __future__ import annotations

import numpy as np
from support.graphs import problem, star
from support.solving import solve

from hetesynth.engine.fused_receives import _width
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.search.auto import _many_checkpoints, _trees_refuse
from hetesynth.search.list_scheduling import list_schedule_by_work
from hetesynth.search.search import Search
from hetesynth.search.trees.balanced_trees import TreeRouting


def test_channels_of_a_link_of_any_rate_are_not_counted_down_one_by_one() -> None:
    """A link of 1e9 GB/s asks for hundreds of millions of channels."""
    for numbers, room in (([10**15] * 7, 64), ([3, 10**12, 2], 11), ([1, 1], 1), ([], 4), ([5, 5, 5], 2)):
        width = _width(numbers, room)
        assert width == 1 or sum(min(number, width) for number in numbers) <= room
        wider = sum(min(number, width + 1) for number in numbers)
        assert wider > room or width == max(numbers, default=1)


def search_of(wanted: Problem, target: int, seconds: float | None = None) -> Search:
    return Search(wanted, target, Budget(seconds), schedule_violations)


def test_many_chunks_over_a_switch_are_not_looked_at_step_by_step() -> None:
    """4096 chunks from one of five GPUs take 4097 steps, and each step looks at all deliveries that are left."""
    many = search_of(problem(star(5), "broadcast", chunks=4096), 4097)
    assert _many_checkpoints(many) is not None and _trees_refuse(many) is not None
    few = search_of(problem(star(5), "broadcast", chunks=16), 17)
    assert _many_checkpoints(few) is None and _trees_refuse(few) is None


def test_what_is_begun_ends_with_the_budget_where_there_is_a_schedule() -> None:
    wanted = problem(star(5), "broadcast", chunks=64)
    best = solve(wanted).schedule
    for seconds, known, leaves in (
        (1e-9, best, True),
        (1e-9, None, False),
        (None, best, False),
        (1e6, best, False),
    ):
        search = Search(wanted, 1, Budget(seconds), schedule_violations, best=known)
        assert search.may_leave() is leaves
    late = Search(wanted, 1, Budget(1e-9), schedule_violations, best=best)
    routing = TreeRouting(wanted, 65, np.random.default_rng(0), late.policy)
    assert routing.sweep()
    ends = list_schedule_by_work(routing.tables, routing.trees, 0.0, np.random.default_rng(0), late.may_leave)
    assert ends is None
    whole = list_schedule_by_work(routing.tables, routing.trees, 0.0, np.random.default_rng(0))
    assert whole is not None and not schedule_violations(wanted, whole)
