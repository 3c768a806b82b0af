"""The monolithic model finds the optimum and proves it; the judge refuses a clause that is no law."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from support.graphs import line, problem
from support.optimum import copying_optimum
from support.random_graphs import copying_problems
from support.verdicts import certificate_violations

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import LowerBound, UnsatWitness
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.verdict import Infeasible, Synthesized
from hetesynth.search.search import Search, unsat_bound
from hetesynth.search.smt import cegis

fixed = settings(
    max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)


@given(copying_problems())
@fixed
def test_the_monolithic_model_finds_the_optimum_and_the_judge_agrees(wanted: Problem) -> None:
    best = copying_optimum(wanted)
    assert best is not None
    for steps in range(max(1, best - 1), best + 1):
        outcome, model = cegis.monolithic(Search(wanted, 1, Budget(), schedule_violations), steps)
        assert isinstance(outcome, Synthesized if steps >= best else Infeasible)
        if isinstance(outcome, Infeasible) and model is not None:
            assert not certificate_violations(wanted, unsat_bound(steps, model.smt2()))


def test_a_clause_that_the_laws_do_not_give_is_refused() -> None:
    """One that holds without loss because ranks 0 and 2 are alike, too: proofs are about the laws alone."""
    wanted = problem(line(3), "allgather")
    head = "\n".join(f"(declare-fun send_{k}_{a}_0 () Bool)" for k in range(3) for a in range(4))
    text = f"{head}\n(assert (or send_0_0_0 (not send_2_3_0)))"
    assert certificate_violations(wanted, LowerBound(3, "unsat", "", UnsatWitness(2, text)))
