"""Mutants of good MSCCL++ plans: the judge rejects all that can go wrong in a random execution, and every loss
of a signal, wait, put, sum, copy or barrier."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.lowering_cases import case
from support.plan_chaos import outcome

from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.model.plan import Plan, PlanOperation
from hetesynth.programs.layout import FileOptions
from hetesynth.programs.mscclpp.lower import lower_plan

Ops = list[PlanOperation]
CASES = [
    ("full3", "allreduce"), ("ring8", "allgather"), ("oneway4", "allreduce"), ("h4p8", "allgather"),
    ("full4", "alltoall"), ("h4p8", "reducescatter"), ("ring8", "scatter"), ("star5", "gather"),
    ("line3", "reduce"), ("star5", "broadcast"),
]  # fmt: skip


@cache
def good(graph: str, name: str, in_place: bool) -> tuple[Plan, int | None]:
    problem, schedule = case(graph, name)
    servers = ["a" if r < (problem.ranks + 1) // 2 else "b" for r in range(problem.ranks)]
    return lower_plan(problem, schedule, FileOptions("m", in_place), servers), problem.collective.root


def with_operations(plan: Plan, gpu: int, block: int, operations: Ops) -> Plan:
    old = plan.gpus[gpu]
    blocks = list(old.blocks)
    blocks[block] = replace(blocks[block], operations=tuple(operations))
    gpus = list(plan.gpus)
    gpus[gpu] = replace(old, blocks=tuple(blocks))
    return replace(plan, gpus=tuple(gpus))


def places(plan: Plan) -> list[tuple[int, int, int]]:
    return [
        (g, t, i)
        for g, gpu in enumerate(plan.gpus)
        for t, block in enumerate(gpu.blocks)
        for i in range(len(block.operations))
    ]


def dropped(ops: Ops, i: int, rng: random.Random) -> Ops:
    return ops[:i] + ops[i + 1 :]


def doubled(ops: Ops, i: int, rng: random.Random) -> Ops:
    return [*ops[: i + 1], *ops[i:]]


def swapped(ops: Ops, i: int, rng: random.Random) -> Ops:
    j = rng.randrange(len(ops))
    ops = list(ops)
    ops[i], ops[j] = ops[j], ops[i]
    return ops


def shifted(ops: Ops, i: int, rng: random.Random) -> Ops:
    """One slice of the operation begins one chunk earlier or later."""
    x = ops[i]
    side = rng.choice(["src", "dst"])
    parts = list(x.src if side == "src" else x.dst)
    if parts:
        k = rng.randrange(len(parts))
        parts[k] = replace(parts[k], index=max(0, parts[k].index + rng.choice([-1, 1])))
    changed = replace(x, src=tuple(parts)) if side == "src" else replace(x, dst=tuple(parts))
    return [*ops[:i], changed, *ops[i + 1 :]]


def crossed(ops: Ops, i: int, rng: random.Random) -> Ops:
    """The operation takes the targets of another one."""
    j = rng.randrange(len(ops))
    return [*ops[:i], replace(ops[i], dst=ops[j].dst if ops[j].dst else ops[i].dst), *ops[i + 1 :]]


MUTATIONS: list[Callable[[Ops, int, random.Random], Ops]] = [dropped, doubled, swapped, shifted, crossed]


MUTANTS = st.tuples(st.sampled_from(CASES), st.booleans(), st.sampled_from(MUTATIONS), st.integers(0, 10**9))
Mutant = tuple[tuple[str, str], bool, Callable[[Ops, int, random.Random], Ops], int]


def accepted_goes_right(mutant: Mutant) -> None:
    which, in_place, mutation, seed = mutant
    plan, root = good(*which, in_place and which[1] not in ("gather", "scatter"))
    rng = random.Random(seed)
    g, t, i = rng.choice(places(plan))
    changed = with_operations(plan, g, t, mutation(list(plan.gpus[g].blocks[t].operations), i, rng))
    if not plan_violations(changed, root=root, max_findings=3):
        assert {outcome(changed, root, s) for s in range(6)} == {"right"}


@settings(max_examples=70, deadline=None, derandomize=True)
@given(MUTANTS)
def test_what_the_judge_accepts_goes_right_in_every_order(mutant: Mutant) -> None:
    accepted_goes_right(mutant)


def turned(x: PlanOperation, rng: random.Random) -> PlanOperation:
    """The same for the same channels, but by other threads."""
    turn = rng.randrange(1, max(2, len(x.channels)))

    def moved(entries: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*entries[turn:], *entries[:turn])

    pairs = {"src": moved(x.src), "dst": moved(x.dst)} if x.op == "put" else {}
    return replace(x, channels=moved(x.channels), **pairs)


def loosened(plan: Plan, rng: random.Random) -> Plan:
    """Port operations of one thread block shared out to its threads anew, and perhaps without one nop."""
    g, t = rng.choice([(g, t) for g, gpu in enumerate(plan.gpus) for t in range(len(gpu.blocks))])
    ops = list(plan.gpus[g].blocks[t].operations)
    nops = [i for i, x in enumerate(ops) if x.op == "nop"]
    if nops and rng.random() < 0.7:
        del ops[rng.choice(nops)]
    wide = [i for i, x in enumerate(ops) if len(x.channels) > 1 and x.channel_type == "port"]
    for i in rng.sample(wide, min(len(wide), rng.randrange(3))):
        ops[i] = turned(ops[i], rng)
    return with_operations(plan, g, t, ops)


def ports_only(graph: str, name: str) -> tuple[Plan, int | None]:
    problem, schedule = case(graph, name)
    servers = [f"s{r}" for r in range(problem.ranks)]
    return lower_plan(problem, schedule, FileOptions("m"), servers), problem.collective.root


def threads_apart(count: int) -> tuple[int, int]:
    """(mutants accepted, mutants refused) of ``count``; what is accepted goes right in every order tried."""
    accepted = refused = 0
    for seed in range(count):
        rng = random.Random(seed)
        plan, root = ports_only(*CASES[seed % len(CASES)])
        changed = loosened(plan, rng)
        if plan_violations(changed, root=root, max_findings=1):
            refused += 1
            continue
        accepted += 1
        assert {outcome(changed, root, s) for s in range(4)} == {"right"}, seed
    return accepted, refused


def test_threads_that_run_apart() -> None:
    accepted, refused = threads_apart(50)
    assert accepted > 5 and refused > 5


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("graph", "name"), CASES)
def test_losses_are_noticed(graph: str, name: str, in_place: bool) -> None:
    plan, root = good(graph, name, in_place and name not in ("gather", "scatter"))
    assert plan_violations(plan, root=root) == []
    assert {outcome(plan, root, s) for s in range(5)} == {"right"}
    rng = random.Random(f"{graph} {name}")
    chosen = [p for p in places(plan) if operation(plan, p).op not in ("nop", "flush")]
    for place in rng.sample(chosen, min(30, len(chosen))):
        g, t, i = place
        ops = list(plan.gpus[g].blocks[t].operations)
        assert plan_violations(with_operations(plan, g, t, dropped(ops, i, rng)), root=root, max_findings=1), place


def operation(plan: Plan, place: tuple[int, int, int]) -> PlanOperation:
    return plan.gpus[place[0]].blocks[place[1]].operations[place[2]]
