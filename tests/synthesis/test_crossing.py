"""AllReduce with one crossing of each fabric that has two sides."""

from collections import Counter
from pathlib import Path

import pytest

from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.request import Request
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.policy import DEFAULT
from hetesynth.search.baselines.crossing import crossing, crossing_strategy, levels_of, trading_strategy
from hetesynth.search.search import Search
from hetesynth.search.timed.earliest_arrival import Rates
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def question(name: str, collective: str = "allreduce") -> tuple[Problem, Rates]:
    path = EXAMPLES / name / "topo.dsl"
    specs = CandidateSpecs(load_topology(path), Request(path, collective), 64_000)  # type: ignore[arg-type]
    return specs.factory.problem(specs.paper_chunking(1), 1), specs.rates(1)


@pytest.mark.parametrize("name", ["two_dc_50km", "h20_4p8", "a100_x2"])
def test_every_chunk_crosses_once_each_way(name: str) -> None:
    problem, rates = question(name)
    levels = levels_of(problem, rates.alpha)
    first, second = (frozenset(group) for group in levels[1])
    schedule = crossing(problem, rates.alpha, levels, 1)
    assert schedule_violations(problem, schedule) == []
    ends = ((t.chunk, problem.arcs[t.link]) for t in schedule.transfers)
    crossed = Counter((k, arc.src in first) for k, arc in ends if (arc.src in first) != (arc.dst in first))
    assert first | second == frozenset(range(problem.ranks))
    assert crossed == Counter((k, side) for k in range(len(problem.collective.chunks)) for side in (False, True))


@pytest.mark.parametrize(
    ("name", "collective", "why"),
    [
        ("h20_4p8", "allgather", "it is for allreduce"),
        ("mi250_x1", "allreduce", "all links are alike"),
        ("h20_4x3", "allreduce", "a rank would add several values to a chunk at once"),  # three servers
    ],
)
def test_what_it_does_not_take(name: str, collective: str, why: str) -> None:
    problem, rates = question(name, collective)
    refused = crossing_strategy(rates).refuses(problem, DEFAULT) or ""
    assert why in refused or "traded by more ranks" in refused


def test_servers_trade_at_once() -> None:
    """Three servers: each of the two others gets the sum of a server in one step, before it is added to."""
    path = EXAMPLES / "h20_4x3" / "topo.dsl"
    specs = CandidateSpecs(load_topology(path), Request(path, "allreduce"), 64_000)
    [spec] = specs.of("trading", 1)
    problem = specs.problem(spec)
    assert trading_strategy(specs.rates(1)).refuses(problem, DEFAULT) is None
    search = Search(problem, 1, Budget(), schedule_violations)
    spec.strategy.improve(search)
    assert search.best is not None
    server = {
        rank: number for number, group in enumerate(levels_of(problem, specs.rates(1).alpha)[1]) for rank in group
    }
    ends = [(t, problem.arcs[t.link]) for t in search.best.transfers]
    between = [(t, arc) for t, arc in ends if server[arc.src] != server[arc.dst]]
    assert len(between) == 6 * len(problem.collective.chunks) and all(t.reduce for t, _ in between)
    assert len({(t.chunk, t.start) for t, _ in between}) == len(problem.collective.chunks)
