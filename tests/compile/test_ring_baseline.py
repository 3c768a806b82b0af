"""The baseline that users compare with: known times of rings, NICs with one ring each, programs that verify."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from support.random_sources import random_source

from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.engine.ring_baseline import NAMES, Baseline, ring_baseline, ring_wiring, tree_baseline
from hetesynth.judge.msccl.judge import program_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.cost import costs
from hetesynth.model.topology import Topology
from hetesynth.programs.msccl.library_programs import ring_program, tree_program
from hetesynth.search.baselines.ring_search import RingSet, ring_sets
from hetesynth.search.baselines.table import trees_of
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
FAST_AND_SLOW = """
import h100
import a100
cluster fast_and_slow {
  instance h[0-1] = h100x8
  instance a[0-1] = a100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
"""
EIGHT_NICS = """
node h20x8n8 {
  gpus 8
  switch nvswitch { ports gpu[0-7]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-7] { bandwidth 400 Gbps }
  attach gpu[0-7] -> nic[0-7]
}
cluster eight_nics {
  instance a[0-1] = h20x8n8
  fabric ib { join *.nic*; latency 1.3 us }
}
"""
TWO_MODULES = """
node modules {
  gpus 4
  mesh gpu[0-1] { bandwidth 50 GB/s; latency 0.7 us; kind nvlink }
  mesh gpu[2-3] { bandwidth 50 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 100 Gbps }
  bus pcie0 { members gpu[0-1] <-> nic0; bandwidth 32 GB/s; kind pcie }
  bus pcie1 { members gpu[2-3] <-> nic1; bandwidth 32 GB/s; kind pcie }
  bus upi { members pcie0 <-> pcie1; bandwidth 48 GB/s; latency 1.5 us; kind upi }
}
cluster two_modules {
  instance a[0-2] = modules
  fabric ib { join *.nic*; latency 1.3 us }
}
"""


@cache
def topology(name: str) -> Topology:
    texts = {"fast_and_slow": FAST_AND_SLOW, "eight_nics": EIGHT_NICS, "two_modules": TWO_MODULES}
    return parse_topology(texts[name]) if name in texts else load_topology(EXAMPLES / name / "topo.dsl")


def best_set(on: Topology) -> RingSet:
    wiring = ring_wiring(on, costs(on))
    return min(ring_sets(wiring), key=lambda s: (s.cost, len(s.rings)))


def seconds(name: str, coll: CollectiveName, size: int) -> float:
    found = ring_baseline(topology(name), coll, 0 if coll in ROOTED else None, size, CostOptions())
    assert isinstance(found, Baseline), found
    return found.seconds


@pytest.mark.parametrize(
    ("name", "rings", "rate"),
    [
        ("fast_and_slow", 8, 8 * 25),  # eight NICs a server, the slower ones of 25 GB/s
        ("eight_nics", 8, 8 * 50),
        ("h20_4p8", 4, 4 * 50),
        ("dgx1", 6, 6 * 25),  # three rings over all six NVLinks of a GPU, in both directions
        ("mi250_x1", 6, 6 * 50),
        ("dgx2_x2", 8, 8 * 12.5),
        ("ring8", 2, 2 * 25),
        ("torus_8x8", None, 2 * 50 * 1.073741824),  # both directions of a cycle at least
    ],
)
def test_rings_reach_what_rings_can(name: str, rings: int | None, rate: float) -> None:
    """``rate``: GB/s that all rings carry together past every rank."""
    best = best_set(topology(name))
    assert rings in (None, len(best.rings))
    assert 1e-9 / best.cost >= rate * (1 - 1e-9)


@pytest.mark.parametrize("coll", COLLECTIVE_NAMES)
@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5, 6])
def test_baselines_of_random_clusters_verify(coll: CollectiveName, seed: int) -> None:
    on = parse_topology(random_source(seed, 4, 14))
    found = ring_baseline(on, coll, 1 if coll in ROOTED else None, 1_000_000, CostOptions())
    if isinstance(found, str):
        joined = {(link.src, link.dst) for link in on.links}
        assert len(joined) < on.ranks * (on.ranks - 1)
        return
    wrong = program_violations(found.program, links={(link.src, link.dst) for link in on.links})
    assert [w for w in wrong if w.rule != "HX303"] == []  # NCCL's kernels have no limit of steps
    assert found.name == NAMES[coll] and found.name in found.label
    told = ProgramPredictor(on, found.program).predict(1_000_000).seconds
    assert told == pytest.approx(found.seconds)


@pytest.mark.parametrize("coll", ["allgather", "reducescatter", "allreduce", "broadcast", "reduce"])
@pytest.mark.parametrize("chunks", [2, 4, 6])
def test_ring_programs_verify_with_any_chunks(coll: CollectiveName, chunks: int) -> None:
    goal = collective(coll, 5, chunks, 3 if coll in ROOTED else None)
    program = ring_program("x", goal, [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1)])
    assert program_violations(program) == []
    gpu = program.gpus[4]
    block = replace(gpu.thread_blocks[0], instructions=gpu.thread_blocks[0].instructions[:-1])
    shorter = replace(gpu, thread_blocks=(block, *gpu.thread_blocks[1:]))
    assert program_violations(replace(program, gpus=(*program.gpus[:4], shorter))) != []


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_tree_programs_verify(ranks: int, in_place: bool, fused: bool) -> None:
    """The judge wants as many parts for each rank."""
    tables = CopyProblem(chunk(parse_topology(flat(ranks))).problem(collective("broadcast", ranks, 1, 0)))
    trees = trees_of(tables, ranks + 1)
    star = tuple(min(trees[0]) for _ in trees[0])
    for of in (trees[:ranks], trees[: ranks - 1], trees, [star]):
        program = tree_program("x", of, 2 * ranks, in_place=in_place, fused=fused)
        assert program_violations(program) == []
        gpu = program.gpus[0]
        shorter = replace(gpu, thread_blocks=gpu.thread_blocks[:-1])
        assert program_violations(replace(program, gpus=(shorter, *program.gpus[1:])))


def flat(ranks: int) -> str:
    """GPUs on a switch."""
    wires = f"switch s {{ ports gpu[0-{ranks - 1}]; bandwidth 50 GB/s; latency 1 us }}"
    return f"node n {{ gpus {ranks}; {wires} }} cluster c {{ chunk 1 MB; instance a = n }}"


def test_trees_are_quicker_for_small_buffers_on_several_servers() -> None:
    on = topology("h20_4x3")
    trees, rings = (
        tree_baseline(on, 64_000, CostOptions()),
        ring_baseline(on, "allreduce", None, 64_000, CostOptions()),
    )
    assert trees is not None and isinstance(rings, Baseline) and trees.seconds < rings.seconds


def test_trees_are_no_baseline_where_a_link_leads_one_way_only() -> None:
    """From an odd GPU to the even one before it in the other server."""
    assert tree_baseline(load_topology(EXAMPLES / "dgx2_x2" / "topo.dsl"), 1 << 30, CostOptions()) is None
