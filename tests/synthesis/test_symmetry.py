"""Exchanges are real symmetries, breaking them loses no schedule, and the judge knows a false one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from support.graphs import full, line, problem, servers, star
from support.optimum import copying_optimum
from support.random_graphs import copying_problems
from support.verdicts import certificate_violations

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import LowerBound, UnsatWitness
from hetesynth.model.problem import Budget, Problem, Resource
from hetesynth.model.verdict import Infeasible, Synthesized
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search, unsat_bound
from hetesynth.search.smt import monolithic
from hetesynth.search.smt.monolithic import break_symmetry, exchange_of_ranks, exchanges
from hetesynth.search.smt.step_model import StepModel

fixed = settings(
    max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)


def pairs(wanted: Problem) -> set[tuple[int, int]]:
    ranks = range(wanted.ranks)
    return {(u, v) for u in ranks for v in ranks if u < v and exchange_of_ranks(wanted, u, v) is not None}


def test_known_symmetries() -> None:
    assert len(pairs(problem(star(5), "allgather"))) == 10
    assert pairs(problem(star(4), "broadcast")) == {(1, 2), (1, 3), (2, 3)}, "the root is like no other"
    assert pairs(problem(line(3), "allgather")) == {(0, 2)}
    shared = pairs(problem(servers([2, 4], [2, 2]), "allgather"))
    assert shared == {(0, 1), (2, 3), (4, 5)}, "GPUs behind one NIC, and two with a NIC each"
    graph = full(3)
    graph.groups.append(Resource("bus", (0, 1), 1))  # what leaves rank 0
    assert pairs(problem(graph, "allgather")) == {(1, 2)}
    lone = problem(servers([3, 3], [1, 1], nic=[1, 2]), "allgather")
    assert (0, 1) in pairs(lone) and (0, 3) not in pairs(lone), "the NICs differ"


@given(copying_problems())
@fixed
def test_breaking_symmetries_loses_no_optimum_and_the_judge_agrees(wanted: Problem) -> None:
    best = copying_optimum(wanted)
    assert best is not None
    for steps in range(max(1, best - 1), best + 1):
        outcome, model = monolithic.synthesize(Search(wanted, 1, Budget(), schedule_violations), steps)
        assert isinstance(outcome, Synthesized if steps >= best else Infeasible)
        if isinstance(outcome, Infeasible) and model is not None:
            assert not certificate_violations(wanted, unsat_bound(steps, model.smt2()))


def broken(wanted: Problem, steps: int) -> Iterator[tuple[str, list[str]]]:
    """Head of a query, and its symmetry clauses as text."""
    model = StepModel(CopyProblem(wanted), steps)
    before = len(model.smt2().splitlines())
    for exchange in exchanges(wanted):
        break_symmetry(model, exchange)
    lines = model.smt2().splitlines()
    head = "\n".join(line for line in lines if line.startswith("(declare"))
    yield head, lines[before - 1 : -1]


def refused(wanted: Problem, steps: int, head: str, clause: str) -> bool:
    bound = LowerBound(steps + 1, "unsat", "", UnsatWitness(steps, f"{head}\n{clause}"))
    return bool(certificate_violations(wanted, bound))


def test_symmetry_clauses_made_stronger_or_for_another_problem_are_refused() -> None:
    wanted = problem(servers([2, 3], [1, 1]), "allgather")
    ((head, clauses),) = broken(wanted, 3)
    assert len(clauses) == len(list(exchanges(wanted))) * (2**3 - 1)
    other = problem(servers([2, 3], [1, 2]), "allgather")  # ranks 2, 3 and 4 are not all alike any more
    changed = replace(other, arcs=wanted.arcs, segments=other.segments)
    strict = 0
    for clause in clauses:
        assert not refused(wanted, 3, head, clause)
        literals = (
            clause.removeprefix("(assert (or ").removesuffix("))").replace("(not ", "!").replace(")", "").split()
        )
        for i in range(len(literals)):
            rest = [f"(not {x[1:]})" if x[0] == "!" else x for j, x in enumerate(literals) if j != i]
            assert refused(wanted, 3, head, f"(assert (or {' '.join(rest)}))"), (clause, i)
        flipped = [x[1:] if x[0] == "!" else f"(not {x})" for x in literals]
        assert refused(wanted, 3, head, f"(assert (or {' '.join(flipped)}))"), "the other way round"
        strict += refused(changed, 3, head, clause)
    assert strict > 0


def test_a_clause_about_ranks_that_are_not_alike_is_refused() -> None:
    wanted = problem(line(3), "allgather")  # 0 and 2 are alike, 0 and 1 are not; arcs 0->1, 1->0, 1->2, 2->1
    head = "\n".join(f"(declare-fun send_{k}_{a}_0 () Bool)" for k in range(3) for a in range(4))
    assert not refused(wanted, 2, head, "(assert (or send_0_0_0 (not send_2_3_0)))")
    assert refused(wanted, 2, head, "(assert (or send_2_3_0 (not send_0_0_0)))")
    assert refused(wanted, 2, head, "(assert (or send_0_0_0 (not send_1_1_0)))")
    assert refused(wanted, 2, head, "(assert (or send_1_1_0 (not send_1_2_0)))"), "not where they first differ"
    assert refused(replace(wanted, arcs=(*wanted.arcs[:3], replace(wanted.arcs[3], capacity=2))), 2, head,
                   "(assert (or send_0_0_0 (not send_2_3_0)))")  # fmt: skip
