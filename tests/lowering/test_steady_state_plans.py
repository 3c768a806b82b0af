"""MSCCL++ plans in steady state: right for their judges, and as fast as the program of the same trees."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from support.clusters import cluster, problem_on
from support.plan_chaos import outcome

from hetesynth.errors import HetesynthError
from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.judge.mscclpp.reader import read_plan_json
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.cost import Costs, costs
from hetesynth.model.plan import MAX_OPERATIONS, Plan
from hetesynth.model.problem import Problem
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.programs.layout import FileOptions
from hetesynth.programs.mscclpp.json_writer import write_plan_json
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS
from hetesynth.programs.steady_state.plan import finest_steady_plan, lower_steady_plan, plan_arrangements
from hetesynth.programs.steady_state.wiring import PlanArrangement
from hetesynth.simulate.engine import simulate
from hetesynth.simulate.plan import plan_tasks

RANKS = 5
PAIRS = [(a, b) for a in range(RANKS) for b in range(RANKS) if a != b]
ROOTED = ("broadcast", "reduce", "gather", "scatter")
ONE = PlanArrangement(1, 1, 1)
ARRANGEMENTS = [
    ONE,
    PlanArrangement(3, 1, 1),
    PlanArrangement(4, 2, 1),
    PlanArrangement(6, 1, 3),
    PlanArrangement(8, 2, 2),
]


def tree(rng: random.Random, root: int) -> list[tuple[int, int]]:
    """(parent, child) of a random tree, parents first."""
    reached, edges = [root], []
    for child in rng.sample([r for r in range(RANKS) if r != root], RANKS - 1):
        edges.append((rng.choice(reached), child))
        reached.append(child)
    return edges


def outwards(edges: list[tuple[int, int]], chunk: int, first: int) -> list[Transfer]:
    ready, transfers = {edges[0][0]: first}, []
    for parent, child in edges:
        ready[child] = ready[parent] + 1
        transfers.append(Transfer(ready[parent], ready[child], chunk, PAIRS.index((parent, child))))
    return transfers


def inwards(edges: list[tuple[int, int]], chunk: int) -> list[Transfer]:
    """A rank adds one value in a tick."""
    ready, transfers = dict.fromkeys(range(RANKS), 0), []
    for parent, child in reversed(edges):
        start = max(ready[child], ready[parent])
        ready[parent] = start + 1
        transfers.append(Transfer(start, start + 1, chunk, PAIRS.index((child, parent)), True))
    return transfers


def case(seed: int, name: CollectiveName, chunks: int = 1, model: str = "") -> tuple[Problem, Schedule, Costs]:
    """Random trees and paths on five GPUs, all pairs joined."""
    rng = random.Random(seed)
    topology = cluster(RANKS, [(a, b, rng.choice([10, 50]), 1) for a, b in PAIRS], model=model)
    problem = problem_on(topology, name, chunks, 2 if name in ROOTED else None)
    transfers: list[Transfer] = []
    for k in range(len(problem.collective.chunks)):
        start, end = rng.choice(sorted(problem.collective.pre[k])), rng.choice(sorted(problem.collective.post[k]))
        if name in ("alltoall", "gather", "scatter"):
            relays = rng.sample([r for r in range(RANKS) if r not in (start, end)], rng.choice([0, 0, 1, 2]))
            path = list(pairwise([start, *relays, end])) if start != end else []
            transfers += outwards(path, k, 0) if path else []
        elif name in ("reducescatter", "reduce"):
            transfers += inwards(tree(rng, end), k)
        elif name == "allreduce":
            added = inwards(tree(rng, start), k)
            transfers += [*added, *outwards(tree(rng, start), k, 1 + max(t.end for t in added))]
        else:
            transfers += outwards(tree(rng, start), k, 0)
    schedule = Schedule.of(transfers)
    return problem, schedule, costs(topology, runtime=NCCL_TABLES if model else None)


def seconds(plan: Plan, prices: Costs, bytes_of_chunk: float) -> float:
    return simulate(plan_tasks(plan, prices).tasks.graph(bytes_of_chunk)).makespan


@pytest.mark.parametrize("servers", ["aaaaa", "aabbb", "abcde"])
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_plans_are_right(arrangement: PlanArrangement, name: CollectiveName, servers: str) -> None:
    """For the judge of plans, and for an executor that takes random orders."""
    for seed, in_place in ((arrangement.pieces, False), (arrangement.pieces + 1, True)):
        if in_place and name in ("alltoall", "gather", "scatter"):
            continue
        problem, schedule, prices = case(seed, name, 1 if name == "alltoall" else 2)
        root = problem.collective.root
        options = FileOptions("x", in_place)
        plan = lower_steady_plan(problem, schedule, prices, arrangement, options, servers)
        assert plan_violations(plan, root=root, servers=tuple(servers)) == []
        assert {outcome(plan, root, s) for s in range(3)} == {"right"}
        assert read_plan_json(write_plan_json(plan), "x.json") == plan
        assert servers != "abcde" or all(gpu.memory_peers == () for gpu in plan.gpus)
        assert servers != "aaaaa" or all(gpu.port_peers == () for gpu in plan.gpus)
        assert max(len(gpu.blocks) for gpu in plan.gpus) <= RESIDENT_BLOCKS
        assert all(x.op != "barrier" for gpu in plan.gpus for b in gpu.blocks for x in b.operations)


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce", "alltoall"])
def test_a_plan_that_does_not_wait_is_refused_by_its_judge(name: CollectiveName) -> None:
    problem, schedule, prices = case(3, name)
    plan = lower_steady_plan(problem, schedule, prices, PlanArrangement(2, 1, 1), FileOptions("x"), "aabbb")
    for gpu in plan.gpus:
        for block in gpu.blocks:
            if any(x.op == "wait" for x in block.operations):
                less = replace(block, operations=tuple(x for x in block.operations if x.op != "wait"))
                blocks = tuple(less if b is block else b for b in gpu.blocks)
                gpus = tuple(replace(g, blocks=blocks) if g is gpu else g for g in plan.gpus)
                assert plan_violations(replace(plan, gpus=gpus))


def fullest(schedule: Schedule, prices: Costs, bytes_of_chunk: float) -> float:
    carried = [0] * len(prices.link_ends)
    for t in schedule.transfers:
        carried[t.link] += 1
    return max(n * bytes_of_chunk / rate for n, rate in zip(carried, prices.link_rate, strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce"])
def test_the_finest_plan_fills_the_pipe(seed: int, name: CollectiveName) -> None:
    """It takes little more than the fullest link."""
    problem, schedule, prices = case(seed, name)
    listed = plan_arrangements(problem, schedule, prices, 64)
    assert {a.width for a in listed} == {1}
    finest = finest_steady_plan(problem, schedule, prices, listed[0], 64, FileOptions("x"), "aaaaa")
    assert plan_violations(finest, root=problem.collective.root) == []
    operations = max(len(block.operations) for gpu in finest.gpus for block in gpu.blocks)
    assert operations <= MAX_OPERATIONS
    whole = 2.0**30 / len(problem.collective.chunks)
    coarse = lower_steady_plan(problem, schedule, prices, ONE, FileOptions("x"), "aaaaa")
    least = fullest(schedule, prices, whole)
    pieces = max(g.input_chunks for g in finest.gpus) // max(g.input_chunks for g in coarse.gpus)
    took = seconds(finest, prices, whole / pieces)
    assert least * (1 - 1e-9) <= took < 1.2 * least


@pytest.mark.parametrize("servers", ["aaaa", "abbb", "aabb", "abcd"])
def test_a_shift_waits_for_the_one_before_at_every_rank(servers: str) -> None:
    """What rank 1 gets ten times faster than it sends does not leave it all at once."""
    topology = cluster(4, [(0, 1, 500, 1), (1, 2, 50, 1), (2, 3, 50, 1)])
    problem, prices = problem_on(topology, "broadcast", root=0), costs(topology)
    schedule = Schedule.of(Transfer(i, i + 1, 0, i) for i in range(3))
    size = 2.0**30
    plan = lower_steady_plan(problem, schedule, prices, PlanArrangement(8, 1, 4), FileOptions("x"), servers)
    assert seconds(plan, prices, size / 8) * 50e9 / size == pytest.approx(1 + 1 / 8 + 1 / 80, rel=0.01)


def test_a_rank_that_puts_to_all_others_has_channels_left_for_them() -> None:
    """Stars of 17 ranks: 16 channels for each thread block, whatever ends at its rank."""
    pairs = [(a, b) for a in range(17) for b in range(17) if a != b]
    topology = cluster(17, [(a, b, 50, 1) for a, b in pairs])
    problem = problem_on(topology, "allgather")
    schedule = Schedule.of(Transfer(0, 1, a, i) for i, (a, _) in enumerate(pairs))
    plan = lower_steady_plan(problem, schedule, costs(topology), ONE, FileOptions("x"), ("a",) * 17)
    assert plan_violations(plan) == []
    assert max(len(b.memory_channels) for gpu in plan.gpus for b in gpu.blocks) == 16


def test_a_plan_has_no_more_pieces_than_its_judge_can_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, schedule, prices = case(1, "allgather")
    given = (problem, schedule, prices, PlanArrangement(8, 1, 2), 8, FileOptions("x"), "aaaaa")
    assert finest_steady_plan(*given).gpus[0].input_chunks == 8
    monkeypatch.setattr("hetesynth.programs.steady_state.plan.MAX_KNOWLEDGE", 1)
    assert finest_steady_plan(*given).gpus[0].input_chunks == 2


def test_what_is_not_lowered_is_refused() -> None:
    problem, schedule, prices = case(0, "alltoall")
    with pytest.raises(HetesynthError) as refused:
        lower_steady_plan(problem, schedule, prices, ONE, FileOptions("x", in_place=True), "aaaaa")
    assert refused.value.code == "HS505"
    with pytest.raises(HetesynthError) as refused:
        lower_steady_plan(problem, schedule, prices, PlanArrangement(2000, 1, 1), FileOptions("x"), "aaaaa")
    assert refused.value.code == "HS508"
    with pytest.raises(HetesynthError) as refused:
        lower_steady_plan(problem, schedule, prices, PlanArrangement(64, 64, 1), FileOptions("x"), "aaaaa")
    assert refused.value.code == "HS508"
