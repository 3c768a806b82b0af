"""The monolithic step model, every law stated from the start (as SCCL does, PPoPP 2021, section 3), on the
Send/Has variables of HeteCCL. For small problems; it is the reference that faster strategies must agree with.

In: a copying problem and a number of steps. Out: a schedule, a proof that there is none, or neither.
"""

from __future__ import annotations

from hetesynth.model.verdict import GaveUp, Infeasible, Outcome, Synthesized
from hetesynth.search.copy_problem import CopyProblem, without_useless
from hetesynth.search.effort import scaled
from hetesynth.search.interrupts import deferred
from hetesynth.search.search import OutOfTime, Search
from hetesynth.search.smt.step_model import Law, StepModel


def synthesize(search: Search, steps: int) -> tuple[Outcome, StepModel | None]:
    """Decide ``steps`` steps with the monolithic model."""
    tables = CopyProblem(search.problem)
    with deferred() as interrupted:
        stop_check = search.stop_check(interrupted)
        try:
            model = StepModel(tables, steps, stop_check, interrupted)
            for law in every_law(tables):
                stop_check()
                model.add(law)
            answer = model.check((), scaled(200_000_000, search.policy.smt.units), search.remaining())
        except OutOfTime:
            return GaveUp("out of time", search.elapsed()), None
    if answer == "sat":
        return Synthesized(without_useless(search.problem, model.transfers(), steps)), model
    if answer == "unsat":
        return Infeasible("the monolithic step model is unsatisfiable", steps), model
    if model.clauses.timed_out:
        search.clock_decisions.note("solver")
    return GaveUp(f"no answer for {steps} steps within the solver's budget", search.elapsed()), model


def every_law(tables: CopyProblem) -> list[Law]:
    """All laws of a problem: capacity (eq. 4, 5), single receipt (eq. 6), exclusion (eq. 8) where asked."""
    problem = tables.problem
    pairs = [(k, r) for k in range(len(problem.collective.chunks)) for r in range(problem.ranks)]
    laws = [Law("capacity", r) for r in range(len(problem.resources))]
    laws += [Law("once", k, r) for k, r in pairs]
    if problem.max_peers is not None:
        laws += [Law("peers", r) for r in range(problem.ranks)]
    if problem.exclusive_reduction:
        laws += [Law("exclusive", k, r) for k, r in pairs]
    return laws
