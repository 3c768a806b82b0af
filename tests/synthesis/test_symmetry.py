"""The monolithic model finds the optimum and proves it; the judge knows a false clause of symmetry."""

from __future__ import annotations

from dataclasses import replace

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
from hetesynth.search.smt import monolithic

fixed = settings(
    max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)


@given(copying_problems())
@fixed
def test_the_monolithic_model_finds_the_optimum_and_the_judge_agrees(wanted: Problem) -> None:
    best = copying_optimum(wanted)
    assert best is not None
    for steps in range(max(1, best - 1), best + 1):
        outcome, model = monolithic.synthesize(Search(wanted, 1, Budget(), schedule_violations), steps)
        assert isinstance(outcome, Synthesized if steps >= best else Infeasible)
        if isinstance(outcome, Infeasible) and model is not None:
            assert not certificate_violations(wanted, unsat_bound(steps, model.smt2()))


def refused(wanted: Problem, steps: int, head: str, clause: str) -> bool:
    bound = LowerBound(steps + 1, "unsat", "", UnsatWitness(steps, f"{head}\n{clause}"))
    return bool(certificate_violations(wanted, bound))


def test_a_clause_about_ranks_that_are_not_alike_is_refused() -> None:
    wanted = problem(line(3), "allgather")  # 0 and 2 are alike, 0 and 1 are not; arcs 0->1, 1->0, 1->2, 2->1
    head = "\n".join(f"(declare-fun send_{k}_{a}_0 () Bool)" for k in range(3) for a in range(4))
    assert not refused(wanted, 2, head, "(assert (or send_0_0_0 (not send_2_3_0)))")
    assert refused(wanted, 2, head, "(assert (or send_2_3_0 (not send_0_0_0)))")
    assert refused(wanted, 2, head, "(assert (or send_0_0_0 (not send_1_1_0)))")
    assert refused(wanted, 2, head, "(assert (or send_1_1_0 (not send_1_2_0)))"), "not where they first differ"
    assert refused(replace(wanted, arcs=(*wanted.arcs[:3], replace(wanted.arcs[3], capacity=2))), 2, head,
                   "(assert (or send_0_0_0 (not send_2_3_0)))")  # fmt: skip
