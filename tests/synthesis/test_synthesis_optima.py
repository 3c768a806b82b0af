"""Known optima on which the strategies must agree, and all eight collectives on small clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.certificates import recheck
from support.graphs import Graph, dgx1, fig10, line, problem, ring, servers, star
from support.solving import solve

from hetesynth.engine.problem import verified_solver
from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.cegis_trace import totals
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.policy import DEFAULT
from hetesynth.search.effort import for_steps
from hetesynth.search.registry import names, row_of, strategy
from hetesynth.search.solve import Solution, Solver

OPTIMA: list[tuple[str, Graph, CollectiveName, int, int]] = [
    ("dgx1", dgx1(), "allgather", 1, 2),
    ("dgx1", dgx1(), "allgather", 2, 3),
    ("oneway4", ring(4, both=False), "allgather", 1, 3),
    ("star4", star(4), "allgather", 1, 3),
    ("line4", line(4), "allgather", 1, 3),
    ("fig10", fig10(), "allgather", 1, 5),
    ("fig10", fig10(), "broadcast", 1, 2),
    ("4+8", servers([4, 8]), "allgather", 1, 3),
    ("ring4", ring(4), "alltoall", 1, 2),
    ("dgx1", dgx1(), "reducescatter", 1, 2),
    ("fig10", fig10(), "reduce", 1, 2),
    ("4+8", servers([4, 8]), "gather", 1, 3),
]
GREEDY_MISSES = 1  # steps
HEURISTICS = ("tree-packing",)
"""Promises no optimum of these tiny cases: it looks at load, which few chunks hardly make."""


def takes(p: Problem) -> bool:
    """Whether every chunk has one target and a link that leads there."""
    linked = {(arc.src, arc.dst) for arc in p.arcs}
    return all(
        len(pre) == len(post) == 1 and (pre == post or (min(pre), min(post)) in linked)
        for pre, post in zip(p.collective.pre, p.collective.post, strict=True)
    )


@pytest.mark.parametrize("case", OPTIMA, ids=lambda c: "-".join(map(str, (c[0], *c[2:]))))
# composition is for clusters of several instances, and no search for the optimum of the whole
@pytest.mark.parametrize("name", sorted(n for n in names("steps") if n != "composition" and not row_of(n).library))
def test_strategies_agree_on_the_optimum(case: tuple[str, Graph, CollectiveName, int, int], name: str) -> None:
    _, graph, wanted, chunks, steps = case
    if name == "monolithic" and graph.ranks > 8:
        pytest.skip("the monolithic model takes seconds here")
    p = problem(graph, wanted, chunks)
    if name == "direct" and not takes(p):
        pytest.skip("direct exchange is for chunks with one target, a link away")
    if wanted not in row_of(name).accepts or (name in HEURISTICS and wanted == "reduce"):
        pytest.skip("the strategy does not take this collective, or its root alone receives")
    solution = solve(p, name)
    assert solution.bound.steps <= steps
    recheck(p, solution.bound)
    if name in HEURISTICS:
        assert solution.schedule.makespan >= steps
    elif name in ("greedy", "repair"):  # without an old schedule a repair is a few greedy rounds
        assert steps <= solution.schedule.makespan <= steps + GREEDY_MISSES
    elif name == "direct" and wanted != "alltoall":
        assert solution.schedule.makespan >= steps  # without relays
    else:
        assert solution.schedule.makespan == steps
        assert solution.certificate.proven_optimal


@pytest.mark.parametrize("case", OPTIMA[:8], ids=lambda c: "-".join(map(str, (c[0], *c[2:]))))
def test_cegis_without_a_first_candidate_asks_z3(case: tuple[str, Graph, CollectiveName, int, int]) -> None:
    """No seed: Z3 decides every step, and the optimum is the same."""
    _, graph, wanted, chunks, steps = case
    solver = verified_solver(strategy("cegis"), Budget(), DEFAULT)
    solution = replace(solver, first_candidate="nothing").solve(problem(graph, wanted, chunks))
    assert isinstance(solution, Solution) and solution.schedule.makespan == steps
    assert totals(solver.trace.entries)["calls"] >= 1


CLUSTERS = {"dgx1": dgx1(), "fig10": fig10(), "4+8": servers([4, 8])}


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_all_eight_collectives(cluster: str, name: CollectiveName) -> None:
    """``solve`` replays twice; for a reduction that means exactly one contribution of every rank."""
    wanted = problem(CLUSTERS[cluster], name, exclusive=name == "allreduce")
    solution = solve(wanted, "greedy")
    assert (solution.within is not None) == (name == "allreduce")
    assert any(t.reduce for t in solution.schedule.transfers) == wanted.collective.reduces
    recheck(wanted, solution.bound)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_a_rank_that_cannot_be_reached_is_infeasible(name: CollectiveName) -> None:
    graph = line(3)
    graph.arcs = [a for a in graph.arcs if 2 not in (a.src, a.dst)]
    for method in names("steps"):
        outcome = Solver(strategy(method), Budget(), schedule_violations).solve(problem(graph, name))
        assert isinstance(outcome, Infeasible)
        assert outcome.steps is None and outcome.reason.startswith("no path leads chunk")


def test_links_of_one_name_are_told_apart() -> None:
    """Two trunks between the same switches: CEGIS must learn the law of the one that is overloaded."""
    graph = Graph(4)
    left, right = graph.vertex(), graph.vertex()
    trunks = [graph.segment(left, right, 1), graph.segment(left, right, 1)]
    graph.segments = [replace(s, name="left->right") for s in graph.segments]
    for u in (0, 1):
        for v in (2, 3):
            graph.over(u, v, (graph.segment(u, left, None), trunks[u], graph.segment(right, v, None)))
            graph.link(v, u, 1)
    names = [r.name for r in problem(graph, "allgather").resources]
    assert len(set(names)) == len(names) and names[:2] == ["left->right", "left->right (2)"]
    for name in ("cegis", "monolithic"):
        assert solve(problem(graph, "allgather"), name).certificate.proven_optimal


@pytest.mark.parametrize("method", ["cegis", "monolithic"])
def test_a_strategy_refuses_what_is_too_large_for_it(method: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        solve(problem(servers([8] * 4), "alltoall", 4), method)
    assert caught.value.exit_code == 2 and "auto" in caught.value.help


@pytest.mark.parametrize(("peers", "steps"), [(1, None), (3, 12), (11, 8)])
def test_ranks_that_may_not_send_to_all_others(peers: int, steps: int | None) -> None:
    """Greedy rounds run out of peers, direct exchange needs too many; by a rank of each server it goes."""
    limited = replace(problem(servers([4, 4, 4]), "alltoall"), max_peers=peers)
    little = for_steps(DEFAULT, 0.2)
    outcome = Solver(strategy("auto"), Budget(), schedule_violations, policy=little).solve(limited)
    if steps is None:
        assert isinstance(outcome, GaveUp)
    else:
        assert isinstance(outcome, Solution) and outcome.schedule.makespan <= steps
        assert not schedule_violations(limited, outcome.schedule)
