"""MSCCL++ plans cut from a dispatch: right for their judges, and as quick as it expects."""

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
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Problem
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.timeline import Dispatch
from hetesynth.programs.layout import FileOptions
from hetesynth.programs.mscclpp.dispatched import lower_dispatched_plan
from hetesynth.programs.mscclpp.json_writer import write_plan_json
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS
from hetesynth.simulate.dispatch import PlanDispatcher
from hetesynth.simulate.engine import simulate
from hetesynth.simulate.plan import plan_tasks

RANKS = 5
PAIRS = [(a, b) for a in range(RANKS) for b in range(RANKS) if a != b]
ROOTED = ("broadcast", "reduce", "gather", "scatter")
PIECES = (1, 2, 3, 8)


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


def dispatched(
    problem: Problem, schedule: Schedule, prices: Costs, pieces: int, servers: str, chunk: float = 1e6
) -> Dispatch:
    dispatcher = PlanDispatcher(schedule, prices, "Simple", 1.0, 1, servers)
    piece = chunk / pieces
    return dispatcher.run(pieces, piece, dispatcher.lanes(piece, 2.0), 0.25 * dispatcher.period * chunk)


def lowered(
    problem: Problem, schedule: Schedule, prices: Costs, pieces: int, servers: str, in_place: bool = False
) -> Plan:
    dispatch = dispatched(problem, schedule, prices, pieces, servers)
    return lower_dispatched_plan(problem, schedule, dispatch, FileOptions("x", in_place), servers)


def seconds(plan: Plan, prices: Costs, bytes_of_chunk: float) -> float:
    return simulate(plan_tasks(plan, prices).tasks.graph(bytes_of_chunk)).makespan


@pytest.mark.parametrize("servers", ["aaaaa", "aabbb", "abcde"])
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("pieces", PIECES)
def test_plans_are_right(pieces: int, name: CollectiveName, servers: str) -> None:
    """For the judge of plans, and for an executor that takes random orders."""
    for seed, in_place in ((pieces, False), (pieces + 1, True)):
        if in_place and name in ("alltoall", "gather", "scatter"):
            continue
        problem, schedule, prices = case(seed, name, 1 if name == "alltoall" else 2)
        root = problem.collective.root
        plan = lowered(problem, schedule, prices, pieces, servers, in_place)
        assert plan_violations(plan, root=root, servers=tuple(servers)) == []
        assert {outcome(plan, root, s) for s in range(3)} == {"right"}
        assert read_plan_json(write_plan_json(plan), "x.json") == plan
        assert servers != "abcde" or all(gpu.memory_peers == () for gpu in plan.gpus)
        assert servers != "aaaaa" or all(gpu.port_peers == () for gpu in plan.gpus)
        assert max(len(gpu.blocks) for gpu in plan.gpus) <= RESIDENT_BLOCKS
        assert all(x.op != "barrier" for gpu in plan.gpus for b in gpu.blocks for x in b.operations)


def test_machine_code_shares_thread_blocks_out_as_the_interpreter_does(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[list[Plan]] = []
    for compiled in (False, True):
        monkeypatch.setattr("hetesynth.machine_code.pays", lambda kernel, seconds, answer=compiled: answer)
        cases = [case(seed, name, 2) for seed in range(3) for name in ("allreduce", "alltoall", "broadcast")]
        plans.append([lowered(*c, 24, "aabbb") for c in cases])
    assert plans[0] == plans[1]


@pytest.mark.parametrize("servers", ["aaaaa", "aabbb", "abcde"])
@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce"])
def test_a_plan_takes_what_its_dispatch_expects(name: CollectiveName, servers: str) -> None:
    """And little more than the fullest link, with a copy rate too."""
    for model in ("", "A100"):
        problem, schedule, prices = case(5, name, model=model)
        whole, pieces = 2.0**28, 24
        dispatch = dispatched(problem, schedule, prices, pieces, servers, whole)
        plan = lower_dispatched_plan(problem, schedule, dispatch, FileOptions("x"), servers)
        took = seconds(plan, prices, whole / pieces)
        assert dispatch.makespan * 0.9 < took < 1.03 * dispatch.makespan
        assert fullest(schedule, prices, whole) * (1 - 1e-9) <= took


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce", "alltoall"])
def test_a_plan_that_does_not_wait_is_refused_by_its_judge(name: CollectiveName) -> None:
    """For a peer, or for another thread block."""
    problem, schedule, prices = case(3, name)
    plan = lowered(problem, schedule, prices, 2, "aabbb")
    for gpu in plan.gpus:
        for block in gpu.blocks:
            for op in ("wait", "sem_acquire"):
                if any(x.op == op for x in block.operations):
                    less = replace(block, operations=tuple(x for x in block.operations if x.op != op))
                    blocks = tuple(less if b is block else b for b in gpu.blocks)
                    gpus = tuple(replace(g, blocks=blocks) if g is gpu else g for g in plan.gpus)
                    assert plan_violations(replace(plan, gpus=gpus))


def fullest(schedule: Schedule, prices: Costs, bytes_of_chunk: float) -> float:
    carried = [0] * len(prices.link_ends)
    for t in schedule.transfers:
        carried[t.link] += 1
    return max(n * bytes_of_chunk / rate for n, rate in zip(carried, prices.link_rate, strict=True))


@pytest.mark.parametrize("servers", ["aaaa", "abbb", "aabb", "abcd"])
def test_pieces_go_on_in_their_order(servers: str) -> None:
    """What rank 1 gets ten times faster than it sends does not leave it all at once, in several runs of a lane."""
    topology = cluster(4, [(0, 1, 500, 1), (1, 2, 50, 1), (2, 3, 50, 1)])
    problem, prices = problem_on(topology, "broadcast", root=0), costs(topology)
    schedule = Schedule.of(Transfer(i, i + 1, 0, i) for i in range(3))
    size = 2.0**30
    dispatch = dispatched(problem, schedule, prices, 64, servers, size)
    plan = lower_dispatched_plan(problem, schedule, dispatch, FileOptions("x"), servers)
    assert any(x.op == "sem_release" for block in plan.gpus[1].blocks for x in block.operations)
    assert seconds(plan, prices, size / 64) * 50e9 / size == pytest.approx(1 + 2 / 64 + 2 / 640, rel=0.02)


def test_what_leaves_by_port_and_memory_has_a_thread_block_each() -> None:
    """The one that has waited tells the other by a semaphore, once for each piece."""
    topology = cluster(4, [(0, 1, 50, 1), (1, 2, 50, 1), (1, 3, 50, 1)])
    problem, prices = problem_on(topology, "broadcast", root=0), costs(topology)
    schedule = Schedule.of([Transfer(0, 1, 0, 0), Transfer(1, 2, 0, 1), Transfer(1, 2, 0, 2)])
    plan = lowered(problem, schedule, prices, 4, "aaab")
    assert plan_violations(plan, root=0) == []
    blocks = [[x.op for x in block.operations] for block in plan.gpus[1].blocks]
    assert sum(ops.count("sem_release") for ops in blocks) == sum(ops.count("sem_acquire") for ops in blocks) == 4
    for block in plan.gpus[1].blocks:
        assert len({x.channel_type for x in block.operations if x.op in ("put", "pws")}) <= 1


def test_a_rank_that_puts_to_all_others_has_channels_left_for_them() -> None:
    """Stars of 17 ranks: 16 channels for each thread block, whatever ends at its rank."""
    pairs = [(a, b) for a in range(17) for b in range(17) if a != b]
    topology = cluster(17, [(a, b, 50, 1) for a, b in pairs])
    problem = problem_on(topology, "allgather")
    schedule = Schedule.of(Transfer(0, 1, a, i) for i, (a, _) in enumerate(pairs))
    plan = lowered(problem, schedule, costs(topology), 1, "a" * 17)
    assert plan_violations(plan) == []
    assert max(len(b.memory_channels) for gpu in plan.gpus for b in gpu.blocks) <= 16


def test_what_its_judge_cannot_follow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, schedule, prices = case(1, "allgather")
    monkeypatch.setattr("hetesynth.programs.mscclpp.dispatched.MAX_KNOWLEDGE", 1)
    with pytest.raises(HetesynthError, match="cannot follow"):
        lowered(problem, schedule, prices, 2, "aaaaa")


def test_what_is_not_lowered_is_refused() -> None:
    problem, schedule, prices = case(0, "alltoall")
    with pytest.raises(HetesynthError) as refused:
        lowered(problem, schedule, prices, 1, "aaaaa", in_place=True)
    assert refused.value.code == "HS505"
    with pytest.raises(HetesynthError) as refused:
        lowered(problem, schedule, prices, 1000, "aaaaa")
    assert refused.value.code == "HS508"
