"""Protocols: what a hop takes with each, which of them run on which links, and that the quickest is written."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.library_programs import ring_program

from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.engine.protocols import quickest_protocol, runnable
from hetesynth.library.facts import generation_of
from hetesynth.model.cost import costs
from hetesynth.model.program import Program
from hetesynth.model.runtime_costs import NCCL_TABLES, PROTOCOLS
from hetesynth.model.target import PORTABLE, TARGETS
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COSTS = CostOptions(runtime=NCCL_TABLES)


def topology(name: str) -> Topology:
    return load_topology(EXAMPLES / name / "topo.dsl")


def rings(on: Topology, collective: str) -> Program:
    root = 0 if collective == "broadcast" else None
    return ring_program(on, collective, root, 4)  # type: ignore[arg-type]


def test_a_hop_takes_what_nccl_counts() -> None:
    """NVLink 0.6, 1.9, 3.4 us; between nodes 2.7, 4, 14 and 0.5, twice with Simple; or what is stated."""
    on = topology("h20_4p8")
    prices = costs(on, runtime=NCCL_TABLES)
    inside = next(i for i, (a, b) in enumerate(prices.link_ends) if on.servers[a] == on.servers[b])
    between = next(i for i, (a, b) in enumerate(prices.link_ends) if on.servers[a] != on.servers[b])
    for link, hops in ((inside, (0.6, 1.9, 3.4)), (between, (3.2, 4.5, 15.0))):
        for protocol, hop in zip(PROTOCOLS, hops, strict=True):
            stated = prices.link_alpha[link] * 1e6
            assert prices.lags(protocol)[link] * 1e6 == pytest.approx(max(hop, stated))
    assert costs(on).lags("Simple") == list(costs(on).link_alpha)  # without runtime costs what is stated


@pytest.mark.parametrize("model", ["V100", "A100", "H100", "B200", "MI300X"])
def test_what_ll_carries_is_what_the_library_says(model: str) -> None:
    assert NCCL_TABLES.of(model).ll == generation_of(model).ll * 1e9


@pytest.mark.parametrize(
    ("name", "collective", "servers", "protocols"),
    [
        ("h20_4p8", "allgather", True, ["LL", "LL128", "Simple"]),
        ("h20_4p8", "broadcast", True, ["LL", "LL128"]),  # Simple hangs between servers
        ("h20_4p8", "broadcast", False, ["LL", "LL128", "Simple"]),
        ("mi250_x1", "allgather", True, ["LL", "Simple"]),  # RCCL
        ("fig10", "allgather", True, ["LL", "Simple"]),  # not told
    ],
)
def test_which_run(name: str, collective: str, servers: bool, protocols: list[str]) -> None:
    on = topology(name)
    program, prices = rings(on, collective), COSTS.costs(on)
    assert runnable(program, prices, PORTABLE, on.servers if servers else ()) == protocols
    assert runnable(program, costs(on), PORTABLE, on.servers) == ["Simple"]


@pytest.mark.parametrize(("name", "collective"), [("h20_4p8", "allgather"), ("two_dc_50km", "allreduce")])
@pytest.mark.parametrize("size", [1_000, 64_000, 1_000_000, 16_000_000, 1_000_000_000])
def test_none_is_quicker_than_the_chosen(name: str, collective: str, size: int) -> None:
    """What is left out because it loses more on the wire than all latency would not have been quicker."""
    on, target = topology(name), TARGETS["msccl-executor"]
    program = rings(on, collective)
    chosen = quickest_protocol(on, program, size, COSTS, target)
    every = {
        p: ProgramPredictor(on, replace(program, protocol=p), COSTS, target).timeline(size).makespan
        for p in runnable(program, COSTS.costs(on), target)
    }
    assert chosen.timeline(size).makespan == min(every.values()) == every[chosen.program.protocol]
    assert size < 1_000_000_000 or chosen.program.protocol == "Simple"
    assert size > 1_000 or chosen.program.protocol == "LL"
