"""Schedules to MSCCL++ plans: every collective, both aliasings, through the bytes, judged by code of its own."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.lowering_cases import GRAPHS, case, problem_on, random_schedule

from hetesynth.errors import HetesynthError
from hetesynth.judge.mscclpp.judge import largest_message, plan_violations
from hetesynth.judge.mscclpp.reader import read_plan_json
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.plan import MAX_OPERATIONS, Plan
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.programs.layout import FileOptions, in_place_supported
from hetesynth.programs.mscclpp.json_writer import write_plan_json
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS, lower_plan

GOLDEN = Path(__file__).parent / "golden"


def halves(ranks: int) -> list[str]:
    return ["a" if rank < (ranks + 1) // 2 else "b" for rank in range(ranks)]


def judged(problem: Problem, schedule: Schedule, in_place: bool, servers: list[str]) -> Plan:
    """The plan that the bytes hold, after the judge has found nothing."""
    plan = lower_plan(problem, schedule, FileOptions("p", in_place), servers)
    read = read_plan_json(write_plan_json(plan))
    assert read == plan
    links = {(arc.src, arc.dst) for arc in problem.arcs}
    assert plan_violations(read, root=problem.collective.root, links=links, servers=servers) == []
    return plan


def forms(name: CollectiveName) -> tuple[bool, ...]:
    return (False, True) if in_place_supported(name) else (False,)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_collective_in_every_form(graph: str, name: CollectiveName) -> None:
    problem, schedule = case(graph, name)
    for in_place in forms(name):
        judged(problem, schedule, in_place, halves(problem.ranks))


def test_random_schedules_with_overlapping_transfers() -> None:
    tried = 0
    for seed in range(45):
        rng = random.Random(seed)
        name = rng.choice(COLLECTIVE_NAMES)
        problem = problem_on(rng.choice(["line3", "full3", "full4", "oneway4"]), name, rng.randint(1, 2))
        schedule = random_schedule(problem, rng, rng.randint(1, 3))
        if schedule is None:
            continue
        kinds = {v.kind for v in schedule_violations(problem, schedule)}
        if kinds & {"not-held", "contribution-twice", "not-delivered", "already-held"}:
            continue
        tried += 1
        for in_place in forms(name):
            judged(problem, schedule, in_place, [rng.choice("ab") for _ in range(problem.ranks)])
    assert tried > 20


def test_a_message_that_a_later_one_overtakes_is_waited_for() -> None:
    """Seed 481: the wait for a short transfer covers a long one that started before it."""
    rng = random.Random(481)
    graph = rng.choice(["pair", "line3", "full3", "full4", "oneway4", "star5"])
    name = rng.choice(COLLECTIVE_NAMES)
    problem = problem_on(graph, name, rng.randint(1, 2))
    schedule = random_schedule(problem, rng, rng.choice([1, 2, 3]))
    assert schedule is not None
    assert any(t.end - t.start > 1 for t in schedule.transfers)
    judged(problem, schedule, False, [rng.choice("ab") for _ in range(problem.ranks)])


def test_an_in_place_reducescatter_never_writes_a_peers_output() -> None:
    """The runtime would look for it where the own output begins."""
    problem, schedule = case("full4", "reducescatter")
    plan = judged(problem, schedule, True, halves(4))
    assert {b.buffer for gpu in plan.gpus for b in gpu.remote_buffers} == {"s"}


def test_long_plans_hand_over_to_further_thread_blocks() -> None:
    problem, schedule = case("ring8", "alltoall", 4)
    for in_place in (False, True):
        plan = judged(problem, schedule, in_place, halves(8))
        longest = max(len(b.operations) for gpu in plan.gpus for b in gpu.blocks)
        assert MAX_OPERATIONS - 12 < longest <= MAX_OPERATIONS
        assert 2 < max(len(gpu.blocks) for gpu in plan.gpus) <= RESIDENT_BLOCKS
        assert {x.barrier for gpu in plan.gpus for b in gpu.blocks for x in b.operations} >= {0, 1}


def test_what_cannot_fit_is_an_error_with_a_way_out() -> None:
    problem, schedule = case("ring8", "alltoall", 24)
    with pytest.raises(HetesynthError, match="thread blocks") as caught:
        lower_plan(problem, schedule, FileOptions("p"), halves(8))
    assert caught.value.code == "HS508"
    assert "fewer chunks" in caught.value.help


GIB = 2**30


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("graph", ["full4", "ring8"])
def test_the_range_ends_where_a_buffer_can_no_longer_be_addressed(graph: str, name: CollectiveName) -> None:
    problem, schedule = case(graph, name)
    for in_place in forms(name):
        plan = judged(problem, schedule, in_place, halves(problem.ranks))
        assert plan.min_bytes == 0 and plan.max_bytes == largest_message(plan)
        message = max(gpu.output_chunks if name == "allgather" else gpu.input_chunks for gpu in plan.gpus)
        chunk = plan.max_bytes // message
        most = max(max(gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks) for gpu in plan.gpus)
        assert chunk % 16 == 0 and chunk * most < 4 * GIB <= (chunk + 16) * most
        further = replace(plan, max_bytes=plan.max_bytes + 16 * message)
        assert {v.rule for v in plan_violations(further, root=problem.collective.root)} == {"HX821"}


def test_the_range_of_a_scatter_holds_for_the_root_and_for_the_others() -> None:
    """Sizes are asked for as one rank's block, which the root has once for each rank as its input."""
    problem, schedule = case("star5", "scatter")
    plan = lower_plan(problem, schedule, FileOptions("p", min_bytes=16, max_bytes=1024), halves(5))
    assert (plan.min_bytes, plan.max_bytes) == (16, 5 * 1024)


def test_the_json_is_what_the_loader_reads(golden: object) -> None:
    problem, schedule = case("pair", "allgather")
    plan = lower_plan(problem, schedule, FileOptions("pair"), ["a", "b"])
    data = write_plan_json(plan)
    golden(GOLDEN / "mscclpp_allgather_pair.json", data)  # type: ignore[operator]
    values = json.loads(data)
    assert values["gpus"][1]["id"] == 1
    assert values["inplace"] is False
