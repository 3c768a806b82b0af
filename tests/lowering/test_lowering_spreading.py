"""What a pair carries spread over as many channels as its link needs, within the limits of the target."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from support.lowering_cases import case

from hetesynth.judge.msccl.judge import program_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions, lower_with_notes
from hetesynth.programs.summary import program_summary

Pair = tuple[int, int]


def spread(problem: Problem, schedule: Schedule, channels: dict[Pair, int], **limits: int) -> Lowered:
    target = replace(PORTABLE, **limits)  # type: ignore[arg-type]
    return lower_with_notes(problem, schedule, LoweringOptions("x", target=target, min_channels=channels))


def widths(program: Program) -> dict[Pair, int]:
    return dict(program_summary(program).channels_per_link)


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
