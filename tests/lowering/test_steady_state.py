"""Programs cut from a dispatch: right within every limit, and as fast as it says and docs/model.md proves."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from support.clusters import cluster, problem_on

from hetesynth.engine.steady_programs import Arrangement, Dispatching
from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.judge import program_violations
from hetesynth.judge.msccl.linter import lint
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import Costs, chunk_bytes, costs
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import PORTABLE, TARGETS, Target
from hetesynth.model.timeline import Dispatch, Lanes
from hetesynth.model.topology import Topology
from hetesynth.programs.layout import Layout
from hetesynth.programs.msccl.dispatched import lower_dispatched
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.programs.msccl.xml_writer import write_msccl_xml
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


def dispatched(
    problem: Problem,
    schedule: Schedule,
    prices: Costs,
    arrangement: Arrangement,
    options: LoweringOptions,
    size: int,
) -> tuple[Program, Dispatch]:
    dispatch = Dispatching(problem, schedule, prices, options, size).run(arrangement)
    return lower_dispatched(problem, schedule, dispatch, options).program, dispatch


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("target", ["portable", "msccl-executor"])
@pytest.mark.parametrize("seed", range(4))
def test_programs_are_right_keep_the_limits_and_take_what_is_expected(
    seed: int, target: str, name: CollectiveName
) -> None:
    problem, schedule, prices = case(seed, name, 1 + seed % 2)
    options, size = LoweringOptions("x", target=TARGETS[target], in_place=bool(seed % 2)), 64 * MIB
    listed, _ = Dispatching(problem, schedule, prices, options, size).best(100_000)
    of_chunk = chunk_bytes(name, problem.ranks, problem.collective.chunks_per_rank, size)
    for arrangement in [*(arrangement for _, arrangement in listed), Arrangement(16, 2.0)]:
        try:
            program, dispatch = dispatched(problem, schedule, prices, arrangement, options, size)
        except HetesynthError as error:
            assert error.code == "HS501" and arrangement.pieces > 100  # rounding of what each thread block holds
            continue
        read = read_program(write_msccl_xml(program, options.target), "x.xml")
        links = {(arc.src, arc.dst) for arc in problem.arcs}
        assert lint(read, options.target, links=links, root=problem.collective.root) == []
        loop = Layout(problem.collective, False).chunks_per_loop
        assert program.chunks_per_loop == loop * arrangement.pieces
        took = seconds(program, prices, of_chunk / arrangement.pieces, options.target)
        if of_chunk / arrangement.pieces <= 2 * MIB:  # no loops
            assert took == pytest.approx(dispatch.makespan, rel=0.02)


@pytest.mark.parametrize("seed", range(6))
def test_what_shares_thread_blocks_is_right_and_waits_little(seed: int) -> None:
    """With a thread block less than there are connections, a send and a receive share one."""
    problem, schedule, prices = case(seed, "allreduce", 1)
    whole = LoweringOptions("x")
    arrangement = Arrangement(8, 1.0)
    free, _ = dispatched(problem, schedule, prices, arrangement, whole, 64 * MIB)
    most = max(len(gpu.thread_blocks) for gpu in free.gpus)
    tight = replace(whole, target=replace(PORTABLE, max_thread_blocks=most - 1))
    program, dispatch = dispatched(problem, schedule, prices, arrangement, tight, 64 * MIB)
    both = [b for gpu in program.gpus for b in gpu.thread_blocks if None not in (b.send_peer, b.recv_peer)]
    assert both
    assert lint(read_program(write_msccl_xml(program, tight.target), "x.xml"), tight.target) == []
    of_chunk = chunk_bytes("allreduce", problem.ranks, 1, 64 * MIB)
    assert seconds(program, prices, of_chunk / 8, tight.target) <= 1.1 * dispatch.makespan


@pytest.mark.parametrize("name", ["allgather", "broadcast", "allreduce"])
@pytest.mark.parametrize("seed", range(8))
def test_loops_do_not_drain_where_every_tree_has_a_lane(seed: int, name: CollectiveName) -> None:
    """The same bound for loops of 1 to 40, and each thread block serves one edge of one tree."""
    problem, schedule, prices = case(seed, name, 1)
    options = LoweringOptions("x")
    program, _ = dispatched(problem, schedule, prices, Arrangement(1, None), options, 10**9)
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


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce"])
@pytest.mark.parametrize("seed", range(6))
def test_loops_take_what_is_expected(seed: int, name: CollectiveName) -> None:
    problem, schedule, prices = case(seed, name, 1)
    options, size = LoweringOptions("x"), 512 * MIB
    for arrangement in (Arrangement(2, 2.0, 0.0), Arrangement(3, 1.0)):
        expected = Dispatching(problem, schedule, prices, options, size).fitted(arrangement)
        program, _ = dispatched(problem, schedule, prices, arrangement, options, size)
        pieces = problem.ranks * problem.collective.chunks_per_rank * arrangement.pieces
        assert seconds(program, prices, size / pieces, options.target) == pytest.approx(expected, rel=0.12)


@pytest.mark.parametrize("seed", [3, 9])
def test_no_thread_block_of_a_loop_holds_up_the_next(seed: int) -> None:
    """What a lane sends late in a loop has a thread block other than what it sends early."""
    problem, schedule, prices = case(seed, "allreduce", 1)
    options, size = LoweringOptions("x"), 512 * MIB
    dispatch = Dispatching(problem, schedule, prices, options, size).run(Arrangement(3, 1.0))
    each = (dispatch, replace(dispatch, period=inf, span=inf))
    programs = (lower_dispatched(problem, schedule, one, options).program for one in each)
    took, held_up = (seconds(program, prices, size / problem.ranks / 3, PORTABLE) for program in programs)
    assert held_up > 1.1 * took


@pytest.mark.parametrize("pieces", [1, 32])
def test_a_chain_takes_what_the_proposition_says(pieces: int) -> None:
    """Five links in a row, 32 messages of 2 MiB, in loops or in pieces: (32 - 1 + 5) x 2 MiB / rate, 5 alphas."""
    topology = cluster(6, [(i, i + 1, 50, 1) for i in range(5)])
    problem = problem_on(topology, "broadcast")
    schedule = Schedule.of(Transfer(i, i + 1, 0, i) for i in range(5))
    prices, options, size = costs(topology), LoweringOptions("x"), 64 * MIB
    program, _ = dispatched(problem, schedule, prices, Arrangement(pieces, None), options, size)
    took = seconds(program, prices, size / pieces, options.target)
    assert took == pytest.approx(5e-6 + 36 * 2 * MIB / 50e9)


def test_more_lanes_hide_the_latency() -> None:
    """A link of 50 GB/s and 100 us: a connection holds two messages, so one lane waits for every other of 32."""
    topology = cluster(2, [(0, 1, 50, 100)])
    problem = problem_on(topology, "broadcast")
    schedule = Schedule.of([Transfer(0, 1, 0, 0)])
    prices, options, size = costs(topology), LoweringOptions("x"), 32 * MIB
    send = MIB / 50e9
    program, dispatch = dispatched(problem, schedule, prices, Arrangement(32, 8.0), options, size)
    assert dispatch.makespan == pytest.approx(1e-4 + 32 * send)
    assert seconds(program, prices, MIB, options.target) == pytest.approx(dispatch.makespan)
    program, dispatch = dispatched(problem, schedule, prices, Arrangement(32, 0.001), options, size)
    assert 16 * 1e-4 < seconds(program, prices, MIB, options.target) < dispatch.makespan


def test_too_many_pieces_are_refused() -> None:
    problem, schedule, prices = case(1, "allgather", 1)
    options = LoweringOptions("x", target=replace(PORTABLE, max_steps=4, max_thread_blocks=12))
    with pytest.raises(HetesynthError) as refused:
        dispatched(problem, schedule, prices, Arrangement(64, 1.0), options, 64 * MIB)
    assert refused.value.code == "HS501"


@pytest.mark.parametrize("late", [0, 1])
def test_an_addition_that_overtakes_the_sum_that_it_is_traded_for_is_refused(late: int) -> None:
    """Both ranks send their own value and add the other's: where rank 1 sends later than it adds, twice."""
    problem = problem_on(cluster(2, [(0, 1, 1, 0), (1, 0, 1, 0)]), "allreduce")
    schedule = Schedule.of(Transfer(0, 1, chunk, link, True) for chunk in (0, 1) for link in (0, 1))
    links = np.array([t.link for t in schedule.transfers])
    start = np.array([float(t.chunk + 2 * late * t.link) for t in schedule.transfers])
    dispatch = Dispatch(1, Lanes(links, np.array([1, 1])), start, start + 0.9, 4.0)
    options = LoweringOptions("x", target=TARGETS["portable"])
    if late:
        with pytest.raises(HetesynthError):
            lower_dispatched(problem, schedule, dispatch, options)
    else:
        assert program_violations(lower_dispatched(problem, schedule, dispatch, options).program) == []
