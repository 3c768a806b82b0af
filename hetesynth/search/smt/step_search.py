"""Raising the number of steps from the lower bound until a schedule exists: the outer loop of cegis and
monolithic.

In: a search and a way to decide one number of steps. The target rises only on a proof, or when the budget for
one number is spent, and then the lower bound stays where the last proof left it.
"""

from __future__ import annotations

from collections.abc import Callable

from hetesynth.model.bound import LowerBound
from hetesynth.model.verdict import GaveUp, Infeasible, Outcome, Synthesized
from hetesynth.search.search import Search
from hetesynth.search.strategy import unsat_bound

Decide = Callable[[int], tuple[Outcome, Callable[[], str]]]  # steps -> outcome, and the query as SMT-LIB


def raise_target(search: Search, decide: Decide, what: str) -> LowerBound | None:
    """Ask for ever more steps, from the bound up to one fewer than the best schedule has."""
    proved: LowerBound | None = None
    steps = max(1, search.target)
    while (search.best is None or steps < search.best.makespan) and not search.out_of_time():
        search.progress(f"{what}: {steps} steps?", search.best.makespan if search.best else None)
        outcome, query = decide(steps)
        match outcome:
            case Synthesized(schedule=schedule):
                search.offer(schedule, what)
                return proved
            case Infeasible():
                proved = unsat_bound(steps, query())  # covers every smaller number as well
                search.target = proved.steps
            case GaveUp():  # nothing is known of this number; the next may still be found
                search.solver_spent = True
        steps += 1
    return proved
