"""Baselines: known numbers of steps, shapes of rings and trees, and schedules that verify wherever they apply."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from support.graphs import Graph, full, line, problem, ring
from support.solving import solve

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.search.baselines.table import parents, ring_routes
from hetesynth.search.chunking import Chunking
from hetesynth.search.copy_problem import CopyProblem, NoRoute
from hetesynth.search.registry import ROWS, strategy
from hetesynth.search.solve import Solution, Solver

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = [row.name for row in ROWS if row.library]


def cluster(name: str, collective: CollectiveName, chunks: int) -> Problem:
    wanted = Request(
        EXAMPLES / name / "topo.dsl",
        collective,
        chunks,
        0 if collective in ("broadcast", "reduce", "gather", "scatter") else None,
    )
    return load_problem(wanted, PhaseTimer())[1]


def steps(wanted: Problem, strategy: str) -> int:
    return solve(wanted, strategy).schedule.makespan


@pytest.mark.parametrize(
    ("graph", "collective", "strategy", "expected"),
    [
        (ring(8), "allgather", "ring", 7),
        (ring(8), "allreduce", "ring", 14),
        (full(8), "allgather", "doubling", 4),  # half of the chunks cross one link
        (full(8), "allgather", "all-pairs", 1),
        (full(6), "alltoall", "all-pairs", 1),
        (line(5), "broadcast", "sph", 4),
    ],
)  # fmt: skip
def test_known_steps(graph: Graph, collective: CollectiveName, strategy: str, expected: int) -> None:
    assert steps(problem(graph, collective), strategy) == expected


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("collective", COLLECTIVE_NAMES)
@pytest.mark.parametrize("name", ["dgx1", "h20_4x3"])
def test_a_schedule_that_verifies_or_a_reason(name: str, collective: CollectiveName, strategy: str) -> None:
    wanted = cluster(name, collective, 1)
    try:
        solved = solve(wanted, strategy)
    except HetesynthError as refusal:
        assert refusal.code == "HS306"
        assert strategy in str(refusal)
    else:
        assert solved.schedule.makespan >= solved.bound.steps


@pytest.mark.parametrize("name", ["h20_4p8", "dgx1", "ring8"])
def test_rings_visit_every_rank_once_and_spread_over_nics(name: str) -> None:
    wanted = cluster(name, "allgather", 4)
    routes = ring_routes(CopyProblem(wanted), ())
    crossings = set()
    for chunk, route in zip(wanted.collective.chunks, routes, strict=True):
        at = [wanted.arcs[a].src for a in route]
        assert at[0] == chunk.block[0] and len(set(at)) == wanted.ranks - 1
        assert [wanted.arcs[a].dst for a in route[:-1]] == at[1:]
        crossings |= {(chunk.part, a) for a in route if len(wanted.arcs[a].segments) > 2}
    if name.startswith("h20"):
        nics = {wanted.arcs[a].segments for _, a in crossings}
        assert len(nics) >= 4  # one way between servers for each of the four rings


def test_rings_of_a_stated_order() -> None:
    wanted = problem(full(4), "allgather")
    routes = ring_routes(CopyProblem(wanted), [[0, 2, 1, 3]])
    assert [wanted.arcs[a].dst for a in routes[0]] == [2, 1, 3]
    with pytest.raises(NoRoute, match="every rank once"):
        ring_routes(CopyProblem(wanted), [[0, 2, 1]])


@pytest.mark.parametrize("n", [2, 3, 8, 13])
def test_double_trees_are_trees_and_share_the_work(n: int) -> None:
    first, second = parents(n)
    for tree in (first, second):
        assert tree.count(None) == 1
        for start in range(n):
            seen, at = {start}, start
            while (up := tree[at]) is not None:
                assert up not in seen
                seen.add(up)
                at = up
    inner = [{p for p in tree if p is not None} for tree in (first, second)]
    assert len(inner[0] & inner[1]) <= 1 + (n % 2)  # a server is inner in one tree and a leaf in the other


@pytest.mark.parametrize(
    ("graph", "peers", "strategy", "reason"),
    [
        (line(3), None, "ring", "ring"),
        (full(6), None, "doubling", "power of two"),
        (full(6), 2, "all-pairs", "may only 2"),
    ],
)
def test_a_refusal_has_a_reason(graph: Graph, peers: int | None, strategy: str, reason: str) -> None:
    with pytest.raises(HetesynthError, match=reason):
        solve(replace(problem(graph, "allgather"), max_peers=peers), strategy)


EXAMPLES = Path(__file__).parents[2] / "examples"


def solved(cluster: str, collective: CollectiveName, chunks: int) -> tuple[Chunking, Problem, Solution]:
    request = Request(EXAMPLES / cluster / "topo.dsl", collective, chunks)
    chunking, problem = load_problem(request, PhaseTimer())
    found = Solver(strategy("server-rings"), Budget(), schedule_violations).solve(problem)
    assert isinstance(found, Solution)
    return chunking, problem, found


def nic_peers(chunking: Chunking, problem: Problem, found: Solution) -> dict[int, set[int]]:
    """The NICs that each NIC sends to."""
    names = [v.name for v in chunking.topology.vertices]
    peers: dict[int, set[int]] = defaultdict(set)
    for t in found.schedule.transfers:
        ends = [problem.segments[s] for s in problem.arcs[t.link].segments]
        nics = [v for s in ends for v in (s.src, s.dst) if "nic" in names[v]]
        if nics:
            peers[nics[0]].add(nics[-1])
    return peers


def test_ranks_that_share_nics_send_and_receive_alike() -> None:
    _, problem, solution = solved("h20_8x8", "allreduce", 1)
    arcs = [problem.arcs[t.link] for t in solution.schedule.transfers]
    ends = Counter(rank for arc in arcs for rank in (arc.src, arc.dst))
    assert max(ends.values()) == min(ends.values())


@pytest.mark.parametrize("collective", ["allgather", "allreduce"])
def test_a_nic_sends_to_one_other_and_no_chunk_enters_a_server_twice(collective: CollectiveName) -> None:
    chunking, problem, solution = solved("h20_4x3", collective, 1)
    peers = nic_peers(chunking, problem, solution)
    assert len(peers) == 12 and all(len(others) == 1 for others in peers.values())
    where = chunking.topology.servers
    ends = [(t.chunk, problem.arcs[t.link]) for t in solution.schedule.transfers if not t.reduce]
    entered = Counter((k, where[arc.dst]) for k, arc in ends if where[arc.src] != where[arc.dst])
    assert set(entered.values()) == {1} and len(entered) == len(problem.collective.chunks) * 2
