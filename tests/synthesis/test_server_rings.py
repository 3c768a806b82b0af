"""Rings of servers: NICs keep their peers, no chunk enters a server twice, and steps come near the bound."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.search.chunking import Chunking
from hetesynth.search.registry import strategy
from hetesynth.search.solve import Solution, Solver

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


@pytest.mark.parametrize("collective", ["allgather", "reducescatter", "allreduce"])
@pytest.mark.parametrize(("cluster", "servers"), [("h20_4x2p8x2", 4), ("h20_4p8", 2)])
def test_a_nic_sends_to_one_other(cluster: str, servers: int, collective: CollectiveName) -> None:
    peers = nic_peers(*solved(cluster, collective, 1))
    assert len(peers) == 4 * servers
    assert all(len(others) == 1 for others in peers.values())


def test_no_chunk_enters_a_server_twice() -> None:
    chunking, problem, found = solved("h20_4x2p8x2", "allgather", 2)
    where = chunking.topology.servers
    entered: dict[tuple[int, str], int] = defaultdict(int)
    for t in found.schedule.transfers:
        arc = problem.arcs[t.link]
        if where[arc.src] != where[arc.dst]:
            entered[t.chunk, where[arc.dst]] += 1
    assert set(entered.values()) == {1}
    assert len(entered) == len(problem.collective.chunks) * 3


def test_rings_use_every_nic_alike() -> None:
    """80 chunks enter a server of 4 GPUs by four NICs, so 20 steps at least; a few more to fill."""
    _, _, found = solved("h20_4x2p8x2", "allgather", 4)
    assert found.bound.steps <= found.schedule.makespan <= found.bound.steps + 2
