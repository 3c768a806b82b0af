"""What a pair carries spread over as many channels as its link needs, within the limits of the target."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from support.lowering_cases import case

from hetesynth.judge.msccl.judge import program_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.program import SENDS, Program
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import PORTABLE
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions, lower_with_notes
from hetesynth.programs.summary import program_summary
from hetesynth.search.collectives import collective

Pair = tuple[int, int]


def one_by_one(chunks: int) -> tuple[Problem, Schedule]:
    """A broadcast over one link of one chunk a step, which one channel carries."""
    problem = Problem(2, 2, (), (Arc(0, 1, 1),), (), collective("broadcast", 2, chunks))
    return problem, Schedule.of(Transfer(k, k + 1, k, 0) for k in range(chunks))


def spread(problem: Problem, schedule: Schedule, channels: dict[Pair, int], **limits: int) -> Lowered:
    target = replace(PORTABLE, **limits)  # type: ignore[arg-type]
    return lower_with_notes(problem, schedule, LoweringOptions("x", target=target, min_channels=channels))


def widths(program: Program) -> dict[Pair, int]:
    return dict(program_summary(program).channels_per_link)


@pytest.mark.parametrize(("asked", "channels"), [(1, 1), (2, 2), (4, 4), (8, 8), (9, 8), (100, 8)])
def test_a_pair_has_the_channels_asked_for(asked: int, channels: int) -> None:
    """Never more than it has transfers, and all carry equally much."""
    lowered = spread(*one_by_one(8), {(0, 1): asked})
    assert widths(lowered.program) == {(0, 1): channels} and not program_violations(lowered.program)
    sent: Counter[int] = Counter()
    for block in lowered.program.gpus[0].thread_blocks:
        sent[block.channel] += sum(x.count for x in block.instructions if x.op in SENDS)
    loads = [sent[c] for c in range(channels)]
    assert sum(loads) == 8 and max(loads) - min(loads) <= 1


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "gather"])
@pytest.mark.parametrize("cluster", ["full4", "dgx1", "ring8"])
@pytest.mark.parametrize("width", [2, 3, 5])
def test_spread_programs_are_right(cluster: str, name: CollectiveName, width: int) -> None:
    """Executed by the judge; at least as many channels as asked for, or as there are transfers."""
    problem, schedule = case(cluster, name, 3)
    carried: dict[Pair, int] = defaultdict(int)
    for t in schedule.transfers:
        carried[problem.arcs[t.link].src, problem.arcs[t.link].dst] += 1
    lowered = spread(problem, schedule, dict.fromkeys(carried, width), max_thread_blocks=200, max_channel=31)
    assert not program_violations(lowered.program)
    for pair, channels in widths(lowered.program).items():
        assert channels >= min(width, carried[pair])
