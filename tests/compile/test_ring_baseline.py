"""The baseline that users compare with: known times of rings, NICs with one ring each, programs that verify."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from support.clusters import cluster
from support.random_sources import random_source

from hetesynth.engine.choice.choice import _narrower
from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.engine.ring_baseline import NAMES, Baseline, ring_baseline, ring_wiring, seconds_of, tree_baseline
from hetesynth.judge.msccl.judge import program_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.cost import costs
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.topology import Topology
from hetesynth.programs.msccl.library_programs import direct_program, ring_program, tree_program
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search.baselines.ring_search import RingSet, orders, ring_sets
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
)  # fmt: skip
def test_rings_reach_what_rings_can(name: str, rings: int | None, rate: float) -> None:
    """``rate``: GB/s that all rings carry together past every rank."""
    best = best_set(topology(name))
    assert rings in (None, len(best.rings))
    assert 1e-9 / best.cost >= rate * (1 - 1e-9)


@pytest.mark.parametrize("name", ["fast_and_slow", "eight_nics", "h20_4p8", "dgx1", "mi250_x1", "v100_4x2p8x2"])
def test_every_ring_passes_all_ranks_once(name: str) -> None:
    on = topology(name)
    wiring = ring_wiring(on, costs(on))
    for found in ring_sets(wiring):
        for ring, order in zip(found.rings, orders(wiring, found.rings), strict=True):
            assert sorted(order) == list(range(on.ranks))
            assert [wiring.ends[a][1] for a in ring] == [*order[1:], order[0]]
            servers = [on.servers[rank] for rank in order]
            changes = sum(a != b for a, b in zip(servers, [*servers[1:], servers[0]], strict=True))
            assert changes == (len(set(servers)) if len(set(servers)) > 1 else 0)


@pytest.mark.parametrize("name", ["fast_and_slow", "eight_nics", "h20_4p8", "h20_4x2p8x2"])
def test_a_nic_carries_one_ring(name: str) -> None:
    on = topology(name)
    wiring = ring_wiring(on, costs(on))
    names = costs(on).resource_names
    best = best_set(on)
    load = Counter(r for ring in best.rings for a in ring for r in wiring.uses[a] if ".nic" in names[r])
    assert load and set(load.values()) == {1}


def test_on_two_modules_a_ring_enters_by_one_nic_and_leaves_by_the_other() -> None:
    on = topology("two_modules")
    wiring = ring_wiring(on, costs(on))
    for order in orders(wiring, best_set(on).rings):
        for at, rank in enumerate(order):
            if on.servers[order[at - 1]] != on.servers[rank]:
                last = order[(at + 3) % len(order)]
                assert on.servers[last] == on.servers[rank]
                assert (rank % 4 < 2) != (last % 4 < 2)


@pytest.mark.parametrize(
    ("name", "coll", "size", "ideal"),
    [
        ("fast_and_slow", "allgather", 256_000_000, 256e6 * 31 / 32 / 200e9),
        ("dgx1", "allgather", 192_000_000, 192e6 * 7 / 8 / 150e9),
        ("h20_4p8", "allreduce", 192_000_000, 2 * 192e6 * 11 / 12 / 200e9),
        ("mi250_x1", "reducescatter", 192_000_000, 192e6 * 15 / 16 / 300e9),
        ("h20_4p8", "broadcast", 192_000_000, 192e6 / 200e9),
    ],
)  # fmt: skip
def test_programs_take_little_more_than_the_links(
    name: str, coll: CollectiveName, size: int, ideal: float
) -> None:  # fmt: skip
    assert ideal <= seconds(name, coll, size) <= (1.25 if coll == "broadcast" else 1.08) * ideal


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


@pytest.mark.parametrize("coll", ["allgather", "reducescatter", "allreduce"])
@pytest.mark.parametrize("lanes", [2, 3, 5])
def test_ring_programs_with_ranks_apart_verify(coll: CollectiveName, lanes: int) -> None:
    orders = [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1)] * lanes
    program = ring_program("x", collective(coll, 5, 2), orders, 2)
    assert program_violations(program) == []
    assert all(block.instructions for gpu in program.gpus for block in gpu.thread_blocks)
    assert program.channels == 2 * lanes


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


def test_where_a_send_waits_long_ranks_take_channels_in_turn() -> None:
    """Two data centres: a block of threads that sends all of a ring's chunks waits 250 us for each."""
    found = ring_baseline(topology("two_dc_50km"), "allgather", None, 64_000, CostOptions())
    assert isinstance(found, Baseline) and found.apart
    one = replace(found, apart=False, channels=found.chunks, orders=found.orders[: found.chunks])
    assert seconds_of(topology("two_dc_50km"), one, 64_000, CostOptions()) > 4 * found.seconds


def test_trees_are_quicker_for_small_buffers_on_several_servers() -> None:
    on = topology("h20_4x3")
    trees, rings = (
        tree_baseline(on, 64_000, CostOptions()),
        ring_baseline(on, "allreduce", None, 64_000, CostOptions()),
    )
    assert trees is not None and isinstance(rings, Baseline) and trees.seconds < rings.seconds


def test_trees_of_stated_chunks_have_a_part_on_every_channel() -> None:
    baseline = tree_baseline(topology("h20_4p8"), 192_000_000, CostOptions())
    assert baseline is not None and baseline.channels > 12
    for library, chunks in chain(*_narrower(baseline, 1)):
        made = library.program(collective("allreduce", 12, chunks), LoweringOptions("x"))
        assert made.channels == 1 + max(tb.channel for gpu in made.gpus for tb in gpu.thread_blocks)


@pytest.mark.parametrize("coll", ["alltoall", "gather", "scatter"])
def test_direct_programs_verify(coll: CollectiveName) -> None:
    goal = collective(coll, 5, 4, 3 if coll in ROOTED else None)
    assert program_violations(direct_program("x", goal, 2)) == []


def test_where_no_ring_is_the_reason_is_told() -> None:
    line = cluster(3, [(0, 1, 10, 1), (1, 0, 10, 1), (1, 2, 10, 1), (2, 1, 10, 1)])
    assert "ring" in str(ring_baseline(line, "allgather", None, 1000, CostOptions()))
    assert "no link" in str(ring_baseline(line, "alltoall", None, 1000, CostOptions()))


def test_servers_without_names_are_told_by_the_width_of_links() -> None:
    fast = [(a, b, 100, 1) for s in (0, 3) for a in range(s, s + 3) for b in range(s, s + 3) if a != b]
    slow = [(a, b, 10, 2) for a in range(3) for b in range(3, 6)]
    on = cluster(6, [*fast, *slow, *((b, a, rate, us) for a, b, rate, us in slow)])
    assert set(ring_wiring(on, costs(on)).servers) == {(0, 1, 2), (3, 4, 5)}


@pytest.mark.parametrize(
    ("name", "coll", "size"),
    [
        ("h20_4p8", "allreduce", 192_000_000),
        ("h20_4x2p8", "alltoall", 16 << 20),
        ("mi250_x1", "broadcast", 1 << 20),
    ],
)
def test_channels_that_are_alike_are_simulated_as_one(name: str, coll: CollectiveName, size: int) -> None:
    """The program with all of its channels takes as long as one of each with its share."""
    on = topology(name)
    found = ring_baseline(on, coll, 0 if coll in ROOTED else None, size, CostOptions())
    assert isinstance(found, Baseline)
    channels, chunks = found.channels // found.alike, found.chunks // found.alike
    four = replace(
        found, alike=4, channels=4 * channels, chunks=4 * chunks, orders=4 * found.orders[:channels]
    )  # fmt: skip
    whole = ProgramPredictor(on, four.program).predict(size).seconds
    assert seconds_of(on, four, size, CostOptions()) == pytest.approx(whole, rel=1e-6)


def test_more_channels_are_tried_and_the_quickest_is_taken() -> None:
    on = topology("h20_4p8")
    found = ring_baseline(on, "allreduce", None, 192_000_000, CostOptions(runtime=NCCL_TABLES))
    assert isinstance(found, Baseline) and found.channels > found.rings
    few = replace(found, alike=1, channels=found.rings, chunks=found.rings, orders=found.orders[: found.rings])
    assert seconds_of(on, few, 192_000_000, CostOptions(runtime=NCCL_TABLES)) > 1.2 * found.seconds


def test_on_a_switch_all_channels_pay() -> None:
    """One ring on every channel: a block of threads copies less than a GPU sends."""
    box = load_topology(EXAMPLES / "measured" / "a100x8.dsl")
    found = ring_baseline(box, "allgather", None, 64 << 20, CostOptions(runtime=NCCL_TABLES))
    assert isinstance(found, Baseline)
    assert found.seconds < 1.15 * (64 << 20) * 7 / 8 / (0.78 * 300e9)


def test_plain_sends_of_all_ranks_go_side_by_side() -> None:
    """Two thirds of 64 MB leave each GPU over two links: with one part a rank, no rank waits for another's."""
    node = 'node n { gpus 3; model "V100"; mesh gpu[0-2] { bandwidth 50 GB/s; latency 1 us; kind nvlink } }'
    topology = parse_topology(f"{node} cluster c {{ instance a = n }}")
    sends = ring_baseline(topology, "alltoall", None, 64_000_000, CostOptions())
    assert isinstance(sends, Baseline)
    assert sends.seconds == pytest.approx(64e6 / 3 / 50e9, rel=0.03)


def test_chains_take_as_many_parts_and_channels_as_pay() -> None:
    """On a switch of eight A100 ten blocks copy what a GPU sends, and 64 parts fill the chain soonest."""
    switch = "switch s { ports gpu*; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }"
    box = parse_topology(f'node n {{ model "A100"; gpus 8; {switch} }} cluster c {{ instance a = n }}')
    found = ring_baseline(box, "broadcast", 0, 10**9, CostOptions(runtime=NCCL_TABLES))
    assert isinstance(found, Baseline) and (found.channels, found.chunks) == (10, 640)
    assert found.seconds < 1.12 * 1e9 / (0.78 * 300e9)


def test_trees_are_pipelines_of_as_many_parts_as_pay() -> None:
    """With a part a channel a sum of 16 MB waited for all of itself at every rank: 459 us on 12 H20, now 140."""
    found = tree_baseline(
        load_topology(EXAMPLES / "h20_4p8" / "topo.dsl"), 16_000_000, CostOptions(runtime=NCCL_TABLES)
    )
    assert found is not None and found.chunks >= 16 * found.channels
    assert found.seconds < 150e-6


def test_chains_may_take_more_rings_than_bytes_need() -> None:
    """64 KB on 4 + 8 V100 with one NIC a server: 34.8 us along the two cheapest rings, 27.5 along six."""
    topology = load_topology(EXAMPLES / "v100_4p8_sharednic" / "topo.dsl")
    found = ring_baseline(topology, "broadcast", 0, 64_000, CostOptions(runtime=NCCL_TABLES))
    assert isinstance(found, Baseline) and found.seconds < 30e-6
