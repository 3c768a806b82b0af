"""Lower bounds on steps without a search, and their recheck by the judge of bounds."""

import math
from dataclasses import asdict
from typing import Any

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.problem import load_problem, no_schedule
from hetesynth.engine.request import Request
from hetesynth.judge.bounds.judge import Recheck, recheck
from hetesynth.model.bound import LowerBound
from hetesynth.model.deadline import ClockDecisions
from hetesynth.model.problem import Problem
from hetesynth.search import step_flow
from hetesynth.search.bounds.lower import reach
from hetesynth.search.solve import bounds_of

COLUMNS = 40_000  # of a linear program over steps: some seconds


def bounds_document(request: Request, *, check: bool) -> dict[str, Any]:
    """Return what ``bounds --json`` prints; with ``check`` what rechecking says, else null under ``rechecked``."""
    goal, every = bounds(request)
    rows = []
    for bound in every:
        checked = recheck_bound(goal, bound) if check else None
        row = {
            "steps": bound.steps,
            "method": bound.method,
            "proof": bound.proof,
            "backwards": bound.backwards,
            "witness": None if bound.witness is None else asdict(bound.witness),
            "rechecked": None if checked is None else checked.complete,
            "violations": [violation.message for violation in checked.violations] if checked else [],
        }
        rows.append(row)
    return {
        "collective": goal.collective.name,
        "ranks": goal.ranks,
        "chunks": goal.collective.chunks_per_rank,
        "lower_bound": every[0].steps,
        "bounds": rows,
    }


def bounds(request: Request) -> tuple[Problem, list[LowerBound]]:
    """Return the problem of ``request`` and every lower bound on its steps, best first."""
    _, problem = load_problem(request, PhaseTimer())
    stranded = reach(problem).stranded
    if stranded is not None:
        raise no_schedule(f"no path leads chunk {stranded[0]} to rank {stranded[1]}")
    every = bounds_of(problem, request.policy)
    if step_flow.refuses(problem) is None:
        further = step_flow.proved_bound(problem, every[0].steps, COLUMNS)
        every = every if further is None else [further, *every]
    return problem, every


def recheck_bound(
    problem: Problem, bound: LowerBound, seconds: float = 10.0, clock: ClockDecisions | None = None, units: int = 0
) -> Recheck:
    """Return what the judge says of ``bound``; a solver's query is put to a fresh solver for ``seconds`` and
    ``units`` of its resources (0: no limit). ``clock``: the record of rechecks that lacked seconds."""

    def unsat(query: str) -> bool | None:
        from hetesynth.search.smt.clauses import unsatisfiable

        answer = unsatisfiable(query, seconds, units)
        if answer is None and clock is not None and not math.isinf(seconds):
            clock.note("recheck of the bound")
        return answer

    return recheck(problem, bound, unsat=unsat)
