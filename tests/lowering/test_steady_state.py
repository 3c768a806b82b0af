"""Programs in steady state: right within every limit, even, and as fast as docs/model.md says."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from support.clusters import cluster, problem_on

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.linter import lint
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import Costs, costs
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import PORTABLE, TARGETS, Target
from hetesynth.model.topology import Topology
from hetesynth.programs.layout import Layout
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.programs.msccl.xml_writer import write_msccl_xml
from hetesynth.programs.steady_state.lower import Arrangement, arrangements, lower_steady_state
from hetesynth.simulate.engine import simulate
from hetesynth.simulate.program import ProgramLoops

MIB = 1 << 20
KINDS: tuple[CollectiveName, ...] = ("allgather", "reducescatter", "allreduce", "broadcast", "alltoall")


def random_cluster(rng: random.Random, ranks: int) -> Topology:
    """All pairs joined at random rates; what leaves two of the GPUs shares a group."""
    links = [
        (a, b, rng.choice([10, 25, 50, 100]), rng.choice([1, 5]))
        for a in range(ranks) for b in range(ranks) if a != b
    ]  # fmt: skip
    shared = [(rng.choice([20, 60]), tuple(i for i, x in enumerate(links) if x[0] == a)) for a in (0, 1)]
    return cluster(ranks, links, shared)


def random_tree(rng: random.Random, ranks: int, root: int) -> list[tuple[int, int, int]]:
    """(depth of the edge, parent, child), parents first."""
    depth, edges = {root: 0}, []
    for child in rng.sample([r for r in range(ranks) if r != root], ranks - 1):
        parent = rng.choice(sorted(depth))
        depth[child] = depth[parent] + 1
        edges.append((depth[parent], parent, child))
    return edges


def trees(topology: Topology, problem: Problem, rng: random.Random) -> Schedule:
    """A random tree or path for each chunk, its ticks the levels; additions to a rank one after the other."""
    link = {(x.src, x.dst): i for i, x in enumerate(topology.links)}
    goal, ranks, transfers = problem.collective, problem.ranks, []
    for chunk in goal.chunks:
        if goal.name == "alltoall":
            src, dst = chunk.block
            relay = rng.choice([r for r in range(ranks) if r not in chunk.block])
            route = [] if src == dst else [(src, dst)] if rng.random() < 0.5 else [(src, relay), (relay, dst)]
            transfers += [Transfer(i, i + 1, chunk.index, link[ends]) for i, ends in enumerate(route)]
            continue
        root = rng.randrange(ranks) if goal.name == "allreduce" else chunk.block[0]
        start = 0
        if goal.reduces:
            inward = random_tree(rng, ranks, root)
            for place, (_, parent, child) in enumerate(reversed(inward)):
                transfers.append(Transfer(place, place + 1, chunk.index, link[child, parent], True))
            start = len(inward)
        if goal.name != "reducescatter":
            for depth, parent, child in random_tree(rng, ranks, root):
                at = start + depth
                transfers.append(Transfer(at, at + 1, chunk.index, link[parent, child]))
    return Schedule.of(transfers)


def case(seed: int, name: CollectiveName, chunks: int) -> tuple[Problem, Schedule, Costs]:
    rng = random.Random(seed)
    topology = random_cluster(rng, rng.choice([4, 5, 6]))
    problem = problem_on(topology, name, chunks)
    return problem, trees(topology, problem, rng), costs(topology)


def seconds(program: Program, prices: Costs, bytes_of_chunk: float, target: Target) -> float:
    tasks = ProgramLoops(program, prices, target=target).tasks(bytes_of_chunk)
    return tasks.whole(simulate(tasks.tasks.graph(1.0)))[0]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("target", ["portable", "msccl-executor"])
@pytest.mark.parametrize("seed", range(4))
def test_programs_are_right_and_keep_the_limits(seed: int, target: str, name: CollectiveName) -> None:
    problem, schedule, prices = case(seed, name, 1 + seed % 2)
    in_place = bool(seed % 2)
    options = LoweringOptions("x", target=TARGETS[target], in_place=in_place)
    listed = arrangements(problem, schedule, prices, options, 64 * MIB)
    assert any(arrangement.pieces > 1 for arrangement in listed)
    for arrangement in [listed[0], listed[-1]]:
        program = lower_steady_state(problem, schedule, prices, arrangement, options).program
        read = read_program(write_msccl_xml(program, options.target), "x.xml")
        links = {(arc.src, arc.dst) for arc in problem.arcs}
        assert lint(read, options.target, links=links, root=problem.collective.root) == []
        loop = Layout(problem.collective, False).chunks_per_loop
        assert program.chunks_per_loop == loop * arrangement.pieces


@pytest.mark.parametrize("name", ["allgather", "broadcast", "allreduce"])
@pytest.mark.parametrize("seed", range(8))
def test_loops_do_not_drain_where_every_tree_has_channels(seed: int, name: CollectiveName) -> None:
    """The same bound for loops of 1 to 40, and each thread block serves one edge of one tree."""
    problem, schedule, prices = case(seed, name, 1)
    options = LoweringOptions("x")
    listed = arrangements(problem, schedule, prices, options, 10**9)
    own = next(arrangement for arrangement in listed if arrangement.division == "own")
    assert own.pieces == 1
    program = lower_steady_state(problem, schedule, prices, own, options).program
    ends = Counter(
        rank for t in schedule.transfers for rank in (problem.arcs[t.link].src, problem.arcs[t.link].dst)
    )
    for gpu in program.gpus:
        joined = [b for b in gpu.thread_blocks if b.send_peer is not None or b.recv_peer is not None]
        assert len(joined) == ends[gpu.rank]
        moves = [Counter(i.op for i in b.instructions if i.op in ("s", "r")) for b in joined]
        assert all(sum(of_block.values()) == 1 for of_block in moves)
    crossing = Counter(r for t in schedule.transfers for r in prices.link_resources[t.link])
    rho = min(prices.resource_rate[r] / number for r, number in crossing.items())
    alpha = max(prices.link_alpha[t.link] for t in schedule.transfers)
    for loops in (1, 7, 40):
        took = seconds(program, prices, loops * 2.0 * MIB, options.target)
        assert took <= (loops - 1 + schedule.makespan) * (alpha + 2 * MIB / rho) * (1 + 1e-9)


@pytest.mark.parametrize("pieces", [1, 32])
def test_a_chain_takes_what_the_proposition_says(pieces: int) -> None:
    """Five links in a row, 32 messages of 2 MiB, in loops or in pieces: (32 - 1 + 5) x 2 MiB / rate, 5 alphas."""
    topology = cluster(6, [(i, i + 1, 50, 1) for i in range(5)])
    problem = problem_on(topology, "broadcast")
    schedule = Schedule.of(Transfer(i, i + 1, 0, i) for i in range(5))
    prices, options, size = costs(topology), LoweringOptions("x"), 64 * MIB
    arrangement = Arrangement(pieces, 2 * MIB, "even", 1.0, 1.0)
    program = lower_steady_state(problem, schedule, prices, arrangement, options).program
    took = seconds(program, prices, size / pieces, options.target)
    assert took == pytest.approx(5e-6 + 36 * 2 * MIB / 50e9)


def test_too_many_pieces_are_refused() -> None:
    problem, schedule, prices = case(1, "allgather", 1)
    tight = replace(PORTABLE, max_steps=4, max_thread_blocks=12)
    with pytest.raises(HetesynthError) as refused:
        lower_steady_state(
            problem, schedule, prices, Arrangement(64, MIB, "even", 1.0, 1.0), LoweringOptions("x", target=tight)
        )
    assert refused.value.code == "HS501"
