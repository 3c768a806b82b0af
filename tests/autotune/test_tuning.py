"""The right schedule for a size: bounds hold, scaling holds, results repeat, sizes matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.clusters import cluster, ring

from hetesynth.engine.choice import candidates, tuning
from hetesynth.engine.choice.tuning import CandidateSpecs, Effort, tune
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.problem import ProblemFactory
from hetesynth.engine.request import Request
from hetesynth.engine.time_verdict import rechecked_bounds, time_optimality
from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT
from hetesynth.search.chunking import ChunkingOptions, chunk
from hetesynth.search.registry import strategy
from hetesynth.search.solve import Solution, Solver
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES: Sequence[CollectiveName] = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "gather")
STRATEGIES = ("greedy", "ring", "double-tree", "sph", "all-pairs", "hierarchical")


def asked(name: CollectiveName = "allgather", **more: object) -> Request:
    return replace(Request(Path("hand"), name, budget=Budget(None, 0)), **more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def few_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "CHUNK_COUNTS", (1, 2, 4))


@st.composite
def small_topologies(draw: st.DrawFn) -> Topology:
    """A ring both ways of 2 to 5 ranks with links of unlike rates and latencies, some more, possibly a group."""
    n = draw(st.integers(2, 5))
    rates, delays = st.sampled_from((8.0, 12.5, 25.0, 300.0)), st.sampled_from((0.0, 0.7, 5.0))
    ends = {(r, (r + 1) % n) for r in range(n)} | {((r + 1) % n, r) for r in range(n)}
    ends |= {(a, b) for a, b in draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)))) if a != b}
    links = [(a, b, draw(rates), draw(delays)) for a, b in sorted(ends)]
    members = draw(st.sets(st.integers(0, len(links) - 1), min_size=2, max_size=3)) if len(links) > 2 else set()
    groups = [(draw(rates), tuple(sorted(members)))] if members and draw(st.booleans()) else []
    return cluster(n, links, groups)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    small_topologies(), st.sampled_from(NAMES), st.sampled_from(STRATEGIES), st.integers(1, 3),
    st.sampled_from((1, 1000, 10**6, 10**9)),
)  # fmt: skip
def test_predicted_time_is_never_below_the_bound(
    topology: Topology, name: CollectiveName, way: str, chunks: int, size: int
) -> None:
    request = asked(name, chunks=chunks, chunking=ChunkingOptions(chunk_bytes=max(1, size)))
    try:
        problem = ProblemFactory(topology, request).problem(chunk(topology, request.chunking))
        outcome = Solver(strategy(way), Budget(effort=1.0), schedule_violations).solve(problem)
    except HetesynthError:
        return  # the strategy is not for this problem, or tiny chunks make capacities absurd
    assert isinstance(outcome, Solution)
    found = time_optimality(topology, problem, outcome.schedule, size, CostOptions())
    assert found.seconds is not None and found.percent is not None
    for bound in rechecked_bounds(topology, name, problem.collective.root, DEFAULT).bounds:
        assert found.seconds >= float(bound.seconds(size)) * (1 - 1e-9), bound.proof
    assert 0 < found.percent <= 100 * (1 + 1e-9)


def faster(topology: Topology, times: int) -> Topology:
    wires = tuple(
        replace(w, bandwidth=None if w.bandwidth is None else w.bandwidth * times) for w in topology.wires
    )
    links = tuple(replace(x, bandwidth=x.bandwidth * times) for x in topology.links)
    return replace(topology, wires=wires, links=links)


@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall"])
def test_twice_the_bandwidth_halves_the_beta_part(name: CollectiveName) -> None:
    """Without latencies the whole time is beta; with them what the latency leaves."""
    free = cluster(4, [(a, b, rate, 0.0) for a, b, rate, _ in ring(4, 10, 0)] + [(0, 2, 5, 0.0), (2, 0, 5, 0.0)])
    request = asked(name, chunks=2)
    problem = ProblemFactory(free, request).problem(chunk(free, request.chunking))
    outcome = Solver(strategy("greedy"), Budget(effort=1.0), schedule_violations).solve(problem)
    assert isinstance(outcome, Solution)
    slow = time_optimality(free, problem, outcome.schedule, 10**8, CostOptions())
    quick = time_optimality(faster(free, 2), problem, outcome.schedule, 10**8, CostOptions())
    assert slow.seconds is not None and quick.seconds == pytest.approx(slow.seconds / 2, rel=1e-9)
    assert quick.bound_seconds == pytest.approx(slow.bound_seconds / 2, rel=1e-12)


def test_a_tuning_run_repeats_and_is_ordered() -> None:
    topology = load_topology(EXAMPLES / "dgx1" / "topo.dsl")
    first, second = (tune(CandidateSpecs(topology, asked(), 10**6)) for _ in range(2))
    assert first.tried == second.tried and len(first.tried) > 5
    assert [c.label for c in first.candidates] == [c.label for c in second.candidates]
    assert [c.solution.schedule for c in first.candidates] == [c.solution.schedule for c in second.candidates]
    least = min(seconds for _, seconds in first.tried)
    assert first.candidates[0].seconds <= least
    assert not first.cut_short


def test_what_is_stated_restricts_the_tuning_run() -> None:
    topology = load_topology(EXAMPLES / "fig10" / "topo.dsl")
    stated = tune(CandidateSpecs(topology, asked(chunks=3, strategy="ring"), 10**6))
    assert {label for label, _ in stated.tried} <= {
        label for label, _ in stated.tried if label.startswith("ring, c=3")
    }
    one = tune(CandidateSpecs(topology, asked(chunks=1, chunks_stated=True, strategy="greedy"), 10**9))
    assert {c.chunks for c in one.candidates} == {1}
    fixed = ChunkingOptions(reference=Fraction(1, 1000), rounding="floor")
    (kept,) = tune(CandidateSpecs(topology, asked(chunks=2, strategy="greedy", chunking=fixed), 10**6)).candidates
    assert kept.chunking.tau_ref == Fraction(1, 1000) and kept.chunking.options.rounding == "floor"


def test_what_is_refused_takes_no_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else strategies that are not for a cluster leave others untried."""
    effort = Effort(100.0)
    monkeypatch.setattr(tuning, "schedule_effort", lambda *_: effort)
    with pytest.raises(HetesynthError, match="it is for allreduce"):
        tune(CandidateSpecs(load_topology(EXAMPLES / "dgx1" / "topo.dsl"), asked(strategy="crossing"), 10**6))
    assert effort.spent == 0


@pytest.mark.parametrize("few", [0, tuning.FEW])
def test_where_transfers_are_few_each_kind_is_tried(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "schedule_effort", lambda *_: Effort(1.0))
    monkeypatch.setattr(tuning, "FEW", few)
    topology = load_topology(EXAMPLES / "h20_4p8" / "topo.dsl")
    tried = {label.split(",")[0] for label, _ in tune(CandidateSpecs(topology, asked("allreduce"), 64_000)).tried}
    assert ({"hierarchical", "negotiated", "trading"} <= tried) == (few > 0)


def test_a_size_too_small_and_a_cluster_in_two_parts_are_refused() -> None:
    topology = load_topology(EXAMPLES / "fig10" / "topo.dsl")
    with pytest.raises(HetesynthError) as small:
        tune(CandidateSpecs(topology, asked(chunks=4), 3))
    assert small.value.code == "HS611"
    with pytest.raises(HetesynthError) as apart:
        tune(CandidateSpecs(cluster(3, [(0, 1, 10, 1), (1, 0, 10, 1), (2, 0, 10, 1)]), asked(), 1000))
    assert (apart.value.code, apart.value.exit_code) == ("HS601", 1)
    with pytest.raises(HetesynthError) as refused:
        tune(CandidateSpecs(topology, asked(strategy="doubling"), 1000))
    assert refused.value.code == "HS610" and "power of two" in refused.value.message


def test_an_interrupt_keeps_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = load_topology(EXAMPLES / "fig10" / "topo.dsl")
    solve = Solver.solve
    calls = []

    def interrupted(self: Solver, problem: object) -> object:
        calls.append(problem)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return solve(self, problem)  # type: ignore[arg-type]

    monkeypatch.setattr(Solver, "solve", interrupted)
    kept = tune(CandidateSpecs(topology, asked(), 10**6))
    assert kept.cut_short and kept.interrupted and len(kept.tried) == 2
