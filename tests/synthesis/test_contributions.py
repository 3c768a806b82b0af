"""Allreduces in one model: known optima, brute force on tiny graphs, proofs, and queries that prove nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from support.certificates import recheck
from support.graphs import Graph, dgx1, fig10, full, line, problem, ring, servers
from support.optimum import reducing_optimum

from hetesynth.judge.bounds.laws import Refuted
from hetesynth.judge.bounds.query import query_steps
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import UnsatWitness
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import along_trees
from hetesynth.policy import DEFAULT
from hetesynth.search.auto import AUTO, JOINED, applying
from hetesynth.search.copy_problem import of_chunks
from hetesynth.search.effort import for_steps
from hetesynth.search.overlap import overlapped
from hetesynth.search.search import Strategy
from hetesynth.search.smt.contributions import STRATEGY, Contributions
from hetesynth.search.solve import Solution, Solver


def solved(strategy: Strategy, question: Problem) -> Solution:
    """What ``strategy`` finds; its bound is rechecked."""
    solution = Solver(strategy, Budget(), schedule_violations, policy=for_steps(DEFAULT, 1.0)).solve(question)
    assert isinstance(solution, Solution)
    assert not schedule_violations(question, solution.schedule)
    recheck(question, solution.bound)
    return solution


OPTIMA = [(dgx1(), 4), (ring(6), 5), (line(3), 4)]


@pytest.mark.parametrize("strategy", [pytest.param(STRATEGY, marks=pytest.mark.slow), AUTO], ids=lambda s: s.name)
def test_optimum_of_the_paper(strategy: Strategy) -> None:
    test_optima_that_need_one_model(fig10(), 9, strategy)


@pytest.mark.parametrize("strategy", [STRATEGY, AUTO], ids=lambda s: s.name)
@pytest.mark.parametrize(("graph", "steps"), OPTIMA, ids=["dgx1", "ring", "line"])
def test_optima_that_need_one_model(graph: Graph, steps: int, strategy: Strategy) -> None:
    solution = solved(strategy, replace(problem(graph, "allreduce"), exclusive_reduction=True))
    assert solution.schedule.makespan == steps
    assert solution.bound.steps == steps or strategy is AUTO


TINY = [line(2), line(3), ring(3, both=False), ring(3), full(3)]


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("graph", TINY, ids=["two", "line", "one way", "ring", "full"])
def test_the_model_agrees_with_brute_force(graph: Graph, exclusive: bool) -> None:
    question = replace(of_chunks(problem(graph, "allreduce"), [0]), exclusive_reduction=exclusive)
    optimum = reducing_optimum(question)
    assert optimum is not None
    for steps in range(1, optimum + 1):
        model = Contributions(question, steps)
        feasible = steps >= optimum
        assert model.clauses.check((), 1 << 31, None) == ("sat" if feasible else "unsat")
        if feasible:
            assert not schedule_violations(question, model.schedule())
        else:
            assert query_steps(question, UnsatWitness(steps, model.clauses.smt2())) == steps + 1


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("peers", [None, 2])
def test_every_assertion_follows_and_every_stronger_one_is_refused(exclusive: bool, peers: int | None) -> None:
    question = replace(problem(full(4), "allreduce"), exclusive_reduction=exclusive, max_peers=peers)
    text = Contributions(question, 3).clauses.smt2()
    assert query_steps(question, UnsatWitness(3, text)) == 4
    head = [line for line in text.splitlines() if line.startswith("(declare")]
    asserted = [line for line in text.splitlines() if line.startswith("(assert")]
    mutants = [mutant for formula in asserted[::37] for mutant in _stronger(formula)]
    refused = 0
    for mutant in mutants:
        try:
            query_steps(question, UnsatWitness(3, "\n".join([*head, mutant])))
        except Refuted:
            refused += 1
    assert refused >= len(mutants) - 1 > 50  # of two that land at once, that one replaces says no more than that


def _stronger(formula: str) -> list[str]:
    """``formula`` with a literal less, or a count that allows one less."""
    count = re.fullmatch(r"\(assert \(\(_ at-most (\d+)\) (.*)\)\)", formula)
    if count:
        return [f"(assert ((_ at-most {int(count[1]) - 1}) {count[2]}))"] if count[1] != "0" else []
    literals = re.findall(r"\(not \w+\)|\w+", formula.removeprefix("(assert (or ").removesuffix("))"))
    return [f"(assert (or {' '.join(literals[:i] + literals[i + 1 :])}))" for i in range(len(literals))]


OTHERS = [
    "(assert send_0_0_0)", "(assert part_0_0_1_1)", "(assert (not copied_0_0_1))", "(assert false)",
    "(assert ((_ at-most 1) send_0_0_0 send_0_0_1))", "(assert ((_ at-most 1) part_0_0_1_1 part_0_0_2_1))",
    "(assert ((_ at-most 1) send_0_0_0 copied_0_0_1))", "(assert send_9_0_0)", "(assert send_0_0_7)",
    "(assert has_0_0_1)", "(assert (or (not send_0_0_0) send_1_0_0))",
]  # fmt: skip


@pytest.mark.parametrize("formula", OTHERS)
def test_what_does_not_follow_is_refused(formula: str) -> None:
    question = replace(problem(full(4), "allreduce"), exclusive_reduction=True)
    names = sorted(set(re.findall(r"\b[a-z]+_\d\w*", formula)))
    text = "".join(f"(declare-fun {name} () Bool)" for name in names) + formula
    with pytest.raises(Refuted):
        query_steps(question, UnsatWitness(3, text))


def test_chunks_are_in_the_order_of_one_rank_only() -> None:
    question = problem(line(2), "allreduce")
    order = "(assert (or (not send_1_{0}_0) send_0_{0}_0))"
    head = "".join(f"(declare-fun send_{k}_{a}_0 () Bool)" for k in (0, 1) for a in (0, 1))
    assert query_steps(question, UnsatWitness(2, head + order.format(0))) == 3
    with pytest.raises(Refuted):
        query_steps(question, UnsatWitness(2, head + order.format(0) + order.format(1)))


@cache
def _two_servers() -> Problem:
    return replace(problem(servers([4, 2], nics=1), "allreduce"), exclusive_reduction=True)


def test_phases_overlap() -> None:
    question = _two_servers()
    phases = solved(replace(AUTO, joined=None), question).schedule
    shorter = overlapped(question, phases)
    assert not schedule_violations(question, shorter)
    assert along_trees(shorter, question.arcs)
    assert len(shorter.transfers) == len(phases.transfers)
    assert shorter.makespan <= phases.makespan
    assert solved(replace(AUTO, joined=applying(JOINED[:1])), question).schedule.makespan <= phases.makespan
