"""Integer flows over steps: known optima, agreement with the model of all laws, and what their prices prove."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.clusters import source
from support.graphs import fig10, line, problem, ring, servers

from hetesynth.api import bounds, synthesize
from hetesynth.judge.bounds.judge import recheck
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import LowerBound
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.search import step_flow
from hetesynth.search.orbits import orbits
from hetesynth.search.registry import strategy
from hetesynth.search.solve import Solution, Solver

EXAMPLES = Path(__file__).parents[2] / "examples"


def solved(given: Problem, name: str) -> Solution:
    solution = Solver(strategy(name), Budget(), schedule_violations).solve(given)
    assert isinstance(solution, Solution)
    assert not schedule_violations(given, solution.schedule)
    return solution


@pytest.mark.parametrize(
    ("graph", "name", "chunks"),
    [
        (line(4), "alltoall", 1), (line(4), "scatter", 2), (line(4), "gather", 2), (ring(5), "alltoall", 1),
        (servers([1, 2]), "alltoall", 2), (servers([2, 2]), "scatter", 2), (fig10(), "gather", 1),
    ],
)  # fmt: skip
def test_flow_and_the_model_of_all_laws_agree(graph: Any, name: CollectiveName, chunks: int) -> None:
    given = problem(graph, name, chunks)
    assert solved(given, "flow").schedule.makespan == solved(given, "monolithic").schedule.makespan


def test_dgx1_alltoall_as_sccl_has_it() -> None:
    """SCCL (PPoPP 2021), table 4: 24 chunks in 8 steps. Two chunks a pair take 6, as half of the GPUs shows."""
    made = synthesize(EXAMPLES / "dgx1" / "topo.dsl", "alltoall", chunks=3, schedule_only=True)
    assert made.solution.schedule.makespan == made.solution.bound.steps == 8
    assert bounds(EXAMPLES / "dgx1" / "topo.dsl", "alltoall", chunks=2)[0].steps == 6


def stepped() -> tuple[Problem, LowerBound]:
    """Of two servers joined by one link each way: 3 chunks cross it, then the last is still a link away."""
    given = problem(servers([3, 3]), "scatter", 2)
    bound = step_flow.proved_bound(given, 1, 10_000)
    assert bound is not None
    return given, bound


def test_prices_of_steps_prove_a_bound_that_its_judge_accepts() -> None:
    given, bound = stepped()
    assert recheck(given, bound).complete
    assert solved(given, "monolithic").schedule.makespan == bound.steps


@pytest.mark.parametrize(
    "change",
    [
        lambda w: replace(w, steps=w.steps + 1),
        lambda w: replace(w, steps=10**9),
        lambda w: replace(w, paid=w.paid + 1),
        lambda w: replace(w, paid=w.earned),
        lambda w: replace(w, earned=w.earned - 1),
        lambda w: replace(w, prices=w.prices[1:]),
        lambda w: replace(w, prices=(*w.prices, w.prices[0])),
        lambda w: replace(w, prices=(("magic", 0, 1), *w.prices)),
        lambda w: replace(w, prices=((w.prices[0][0], -1, w.prices[0][2]), *w.prices[1:])),
        lambda w: replace(w, prices=((w.prices[0][0], w.prices[0][1], -w.prices[0][2]), *w.prices[1:])),
    ],
)
def test_changed_prices_of_steps_are_refused(change: Any) -> None:
    given, bound = stepped()
    assert recheck(given, replace(bound, witness=change(bound.witness))).violations


def test_more_than_one_target_is_refused() -> None:
    assert step_flow.refuses(problem(line(3), "allgather", 1)) is not None
    assert step_flow.refuses(replace(problem(line(3), "alltoall", 1), max_peers=1)) is not None


def test_one_rank_of_a_torus_stands_for_all(tmp_path: Path) -> None:
    """36 sources make a flow that HiGHS does not end; all are alike, so it is a scatter with four resources."""
    path = tmp_path / "torus.dsl"
    path.write_text(str(source("torus_6x6")))
    made = synthesize(path, "alltoall", schedule_only=True)
    assert made.solution.schedule.makespan == made.solution.bound.steps == 27


def test_what_is_not_alike_has_no_orbits() -> None:
    """Of a ring one rank is left; nothing turns a line of five and moves all its ranks, nor moves a root."""
    alike = orbits(problem(ring(6), "alltoall", 2))
    assert alike is not None and len(alike.part.collective.chunks) == 12
    assert orbits(problem(line(5), "alltoall", 1)) is None
    assert orbits(problem(ring(6), "scatter", 1)) is None
