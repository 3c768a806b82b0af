"""How many channels a pair needs for the copy rate of thread blocks, and whether they are written."""

from __future__ import annotations

import pytest
from compile.test_lowering_variants import found, written
from support.clusters import cluster

from hetesynth.engine.lowering import Lowering, channels_of_pairs
from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.judge.msccl.judge import program_violations
from hetesynth.model.cost import costs
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.program import Program
from hetesynth.model.runtime_costs import NCCL_TABLES, ByProtocol, GpuCosts, RuntimeCosts
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Topology
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search.collectives import collective

SLOW = RuntimeCosts("slow", (("", GpuCosts(ByProtocol(0, 0, 0), ByProtocol(10e9, 10e9, 10e9))),))
COSTS = CostOptions(runtime=NCCL_TABLES)


def sends(counts: dict[int, int]) -> Schedule:
    """So many chunks over each link."""
    return Schedule.of(Transfer(k, k + 1, 1000 * link + k, link) for link, n in counts.items() for k in range(n))


@pytest.mark.parametrize("blocks", [1, 3, 4, 7, 100])
def test_needs_stay_within_the_thread_blocks_of_a_gpu(blocks: int) -> None:
    """One sender to three peers that need 5, 2 and 1: the widest gives up first, none goes below one."""
    topology = cluster(4, [(0, 1, 45, 0), (0, 2, 20, 0), (0, 3, 5, 0)])
    needed = channels_of_pairs(costs(topology, runtime=SLOW), sends({0: 2, 1: 2, 2: 2}), "Simple", blocks)
    every = [needed.get((0, peer), 1) for peer in (1, 2, 3)]
    assert every == {1: [1, 1, 1], 3: [1, 1, 1], 4: [1, 1, 1], 7: [4, 2, 1], 100: [5, 2, 1]}[blocks]


def with_costs(topology: Topology, program: Program, size: int) -> float:
    return ProgramPredictor(topology, program, COSTS).timeline(size).makespan


@pytest.mark.parametrize("cluster_name", ["h20_4p8", "fig10", "dgx1"])
def test_the_quicker_program_is_written(cluster_name: str) -> None:
    topology, problem, schedule, size = found(cluster_name, "allgather")
    options = LoweringOptions("x")
    for bytes_of_buffer in (size, 64 * size):
        plain = written(Lowering(topology, problem, schedule, bytes_of_buffer, options, CostOptions()).emitted())
        made = Lowering(topology, problem, schedule, bytes_of_buffer, options, COSTS).emitted()
        before, after = (with_costs(topology, p, bytes_of_buffer) for p in (plain, written(made)))
        assert after <= before * (1 + 1e-9)
        assert (after < before * (1 - 1e-9)) == any("copy rate" in note for note in made.notes)


def test_one_chunk_goes_over_several_channels_of_a_wide_link() -> None:
    """One thread block carries a quarter of the link: with the chunk in parts the program is quicker."""
    topology = cluster(2, [(0, 1, 90, 0)])
    problem = Problem(2, 2, (), (Arc(0, 1, 1),), (), collective("broadcast", 2, 1))
    schedule = sends({0: 1})
    first, *_ = Lowering(topology, problem, schedule, 8_000_000, LoweringOptions("x"), COSTS).variants()
    assert first.options.instances == 4 and "parts" in first.note
    made = written(Lowering(topology, problem, schedule, 8_000_000, LoweringOptions("x"), COSTS).emitted())
    assert len({b.channel for b in made.gpus[0].thread_blocks if b.send_peer == 1}) == 4
    assert not program_violations(made)
    seconds = with_costs(topology, made, 8_000_000)
    plain = written(
        Lowering(topology, problem, schedule, 8_000_000, LoweringOptions("x"), CostOptions()).emitted()
    )
    assert with_costs(topology, plain, 8_000_000) > 2 * seconds
