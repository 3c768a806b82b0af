"""MSCCL++ plans in steady state: right for their judge, and as fast as the program of the same trees."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.clusters import cluster, problem_on

from hetesynth.errors import HetesynthError
from hetesynth.lowering.mscclpp.lower import RESIDENT_BLOCKS, PlanOptions, lower_plan
from hetesynth.lowering.steady_state.plan import finest_steady_plan, lower_steady_plan
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import Costs, costs
from hetesynth.model.plan import MAX_OPERATIONS, Plan
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.simulate.engine import simulate
from hetesynth.simulate.plan import plan_tasks
from hetesynth.verify.mscclpp.judge import plan_violations


def case(seed: int, name: CollectiveName, chunks: int) -> tuple[Problem, Schedule, Costs]:
    """Random trees on five GPUs, all pairs joined."""
    rng, ranks = random.Random(seed), 5
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    topology = cluster(ranks, [(a, b, rng.choice([10, 50]), 1) for a, b in pairs])
    problem, transfers = problem_on(topology, name, chunks), []
    for chunk in problem.collective.chunks:
        depth = {chunk.block[0]: 0}
        for child in rng.sample([r for r in range(ranks) if r not in depth], ranks - 1):
            parent = rng.choice(sorted(depth))
            depth[child] = depth[parent] + 1
            transfers.append(Transfer(depth[parent], depth[child], chunk.index, pairs.index((parent, child))))
    return problem, Schedule.of(transfers), costs(topology)


def seconds(plan: Plan, prices: Costs, bytes_of_chunk: float) -> float:
    return simulate(plan_tasks(plan, prices).tasks.graph(bytes_of_chunk)).makespan


@pytest.mark.parametrize("servers", ["aaaaa", "aabbb", "abcde"])
@pytest.mark.parametrize("name", ["allgather", "broadcast"])
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_plans_are_right(pieces: int, name: CollectiveName, servers: str) -> None:
    problem, schedule, prices = case(pieces, name, 2)
    plan = lower_steady_plan(problem, schedule, prices, pieces, PlanOptions("x"), servers)
    assert plan_violations(plan, root=problem.collective.root) == []
    assert all(gpu.memory_peers == () for gpu in plan.gpus) == (servers == "abcde")
    assert max(len(gpu.blocks) for gpu in plan.gpus) <= RESIDENT_BLOCKS


def test_a_plan_that_does_not_wait_is_refused_by_its_judge() -> None:
    problem, schedule, prices = case(3, "allgather", 1)
    plan = lower_steady_plan(problem, schedule, prices, 2, PlanOptions("x"), "aaaaa")
    gpu = next(g for g in plan.gpus if any(x.op == "wait" for b in g.blocks for x in b.operations))
    blocks = tuple(replace(b, operations=tuple(x for x in b.operations if x.op != "wait")) for b in gpu.blocks)
    gpus = tuple(replace(g, blocks=blocks) if g is gpu else g for g in plan.gpus)
    assert plan_violations(replace(plan, gpus=gpus))


@pytest.mark.parametrize("seed", range(3))
def test_the_finest_plan_fills_the_pipe(seed: int) -> None:
    """It takes little more than the fullest link."""
    problem, schedule, prices = case(seed, "allgather", 1)
    finest = finest_steady_plan(problem, schedule, prices, PlanOptions("x"), "aaaaa")
    operations = max(len(block.operations) for gpu in finest.gpus for block in gpu.blocks)
    assert MAX_OPERATIONS * 3 // 4 < operations <= MAX_OPERATIONS
    size = 2.0**30
    carried = [0] * len(prices.link_ends)
    for t in schedule.transfers:
        carried[t.link] += 1
    fullest = max(n * size / 5 / rate for n, rate in zip(carried, prices.link_rate, strict=True))
    chunks = finest.gpus[0].output_chunks
    took = seconds(finest, prices, size / chunks)
    assert fullest * (1 - 1e-9) <= took < 1.1 * fullest


def test_pieces_follow_each_other_down_a_chain() -> None:
    """The plan of the schedule moves the whole buffer over four links one after the other."""
    topology = cluster(5, [(i, i + 1, 50, 1) for i in range(4)])
    problem, prices = problem_on(topology, "broadcast"), costs(topology)
    schedule = Schedule.of(Transfer(i, i + 1, 0, i) for i in range(4))
    whole = lower_plan(problem, schedule, PlanOptions("x"), "aaaaa")
    finest = finest_steady_plan(problem, schedule, prices, PlanOptions("x"), "aaaaa")
    size = 2.0**30
    assert seconds(whole, prices, size) > 3.9 * size / 50e9
    assert seconds(finest, prices, size / finest.gpus[0].output_chunks) < 1.5 * size / 50e9


def test_what_is_not_lowered_is_refused() -> None:
    problem, schedule, prices = case(0, "allgather", 1)
    with pytest.raises(HetesynthError) as refused:
        lower_steady_plan(problem, schedule, prices, 1, PlanOptions("x", in_place=True), "aaaaa")
    assert refused.value.code == "HS505"
    with pytest.raises(HetesynthError) as refused:
        lower_steady_plan(problem, schedule, prices, 2000, PlanOptions("x"), "aaaaa")
    assert refused.value.code == "HS508"
