"""SCALE-CCL: chunks forwarded between data centres event by event."""

from collections import Counter
from pathlib import Path

import pytest

from hetesynth import api
from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.timed.earliest_arrival import TimedRoutes
from hetesynth.search.timed.wan import event_driven, sites, wan_strategy
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TWO_CENTRES = EXAMPLES / "two_dc_50km" / "topo.dsl"
PAIR = """
node one { gpus 1 switch router { ports gpu0; bandwidth 12.5 GB/s; latency 0.7 us; kind lan } }
node two {
  gpus 2
  link gpu0 <-> gpu1 { bandwidth 50 GB/s; latency 0.7 us }
  switch router { ports gpu0; bandwidth 12.5 GB/s; latency 0.7 us; kind lan }
}
"""
SMALL = f"{PAIR}cluster small {{ instance a = one instance b = two WAN }}"
LINE = "wan a.router <-> b.router { bandwidth 12.5 GB/s; length 20 km }"
THREE = f"""{PAIR}cluster three {{
  instance a = two instance b = two instance c = two
  {LINE}
  wan b.router <-> c.router {{ bandwidth 12.5 GB/s; length 40 km }}
}}"""
UNEVEN = """
node centre {
  gpus 2
  link gpu0 <-> gpu1 { bandwidth 100 GB/s; latency 0.7 us }
  switch router0 { ports gpu0; bandwidth 25 GB/s; latency 0.7 us; kind lan }
  switch router1 { ports gpu1; bandwidth 25 GB/s; latency 0.7 us; kind lan }
}
cluster uneven {
  instance a = centre instance b = centre
  wan a.router0 <-> b.router0 { bandwidth 25 GB/s; length 20 km }
  wan a.router1 <-> b.router1 { bandwidth 12.5 GB/s; length 20 km }
}
"""


def forwarded(
    topology: Topology, collective: CollectiveName, size: int, chunks: int = 1
) -> tuple[Problem, TimedRoutes]:
    specs = CandidateSpecs(topology, api.request(topology, collective, size=size, runtime_costs=False), size)
    problem, rates = specs.factory.problem(specs.paper_chunking(chunks), chunks), specs.rates(chunks)
    tables = CopyProblem(problem)
    return problem, event_driven(tables, rates.link_times(tables), rates)


def test_cut_through_over_routers_then_store_and_forward() -> None:
    """T_CT = 0.7 + 100 + 0.7 us and 12.5 MB at 12.5 GB/s; then a hop inside, 0.7 us and 12.5 MB at 50 GB/s."""
    topology = parse_topology(SMALL.replace("WAN", LINE))
    _, routes = forwarded(topology, "broadcast", 12_500_000)
    assert routes.seconds * 1e6 == pytest.approx(1101.4 + 250.7)
    alone = api.synthesize(
        topology, "broadcast", size=12_500_000, chunks=1, strategy="wan", schedule_only=True, runtime_costs=False
    )
    assert alone.time_optimality.seconds is not None
    assert alone.time_optimality.seconds * 1e6 == pytest.approx(1101.4 + 250.7)


@pytest.mark.parametrize("chunks", [1, 4])
def test_no_port_carries_a_chunk_twice_and_a_site_is_entered_once(chunks: int) -> None:
    topology = load_topology(TWO_CENTRES)
    problem, routes = forwarded(topology, "allgather", 64_000_000, chunks)
    received = Counter((k, problem.arcs[a].dst) for k, a in routes.start)
    assert len(received) == problem.collective.deliveries and {*received.values()} == {1}
    crossed = Counter(k for k, a in routes.start if problem.arcs[a].src // 6 != problem.arcs[a].dst // 6)
    assert [*crossed.values()] == [1] * 12 * chunks
    by_wire = Counter(
        (k, w) for k, a in routes.start for w in topology.links[a].wires if topology.wires[w].kind != "link"
    )
    assert max(by_wire.values()) == 1
    # the lines between the centres are never idle: what is left is one chunk's way inside
    busy, alpha, inside = 64e6 / 2 / 25e9, 251.4e-6, 3 * (64e6 / 12 / chunks / 50e9 + 0.7e-6)
    assert busy + alpha < routes.seconds <= busy + alpha + inside + 1e-6


def test_queues_are_as_long_as_lines_are_wide() -> None:
    """Of two lines of 25 and 12.5 GB/s the first gets two thirds of what crosses (load-aware forwarding)."""
    problem, routes = forwarded(parse_topology(UNEVEN), "broadcast", 120_000_000, 12)
    crossed = Counter(
        problem.arcs[a].src for _, a in routes.start if problem.arcs[a].src < 2 <= problem.arcs[a].dst
    )
    assert crossed[0] + crossed[1] == 12 and abs(crossed[0] - 8) <= 1


@pytest.mark.parametrize("collective", ["allgather", "reducescatter", "allreduce", "broadcast", "reduce"])
def test_judges_take_it_where_sites_are_relayed(collective: CollectiveName) -> None:
    """Three sites in a row; synthesize judges the schedule and executes the program."""
    topology = parse_topology(THREE)
    synthesis = api.synthesize(topology, collective, size="4MB", chunks=2, strategy="wan")
    assert synthesis.strategy == "wan" and synthesis.programs
    again = api.synthesize(topology, collective, size="4MB", chunks=2, strategy="wan")
    assert again.files == synthesis.files


def test_what_it_does_not_take() -> None:
    specs = CandidateSpecs(load_topology(EXAMPLES / "h20_4p8" / "topo.dsl"), api.request(".", "allgather"), 64_000)
    problem, rates = specs.factory.problem(specs.paper_chunking(1), 1), specs.rates(1)
    assert len(sites(problem, rates.alpha)) == 1
    assert "no links of 10 us or more" in (wan_strategy(rates).refuses(problem, DEFAULT) or "")


def test_auto_tries_it_between_sites() -> None:
    """At 64 MB it is 10 % quicker than all else there is."""
    synthesis = api.synthesize(load_topology(TWO_CENTRES), "allgather", size="64MB")
    assert synthesis.strategy == "wan" and synthesis.verdict is not None
    assert synthesis.verdict.figures()["percent_of_limit"] >= 93
