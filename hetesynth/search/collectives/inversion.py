"""Reductions as copies run backwards: reduce is broadcast reversed, reduce-scatter is allgather reversed.

``invert(problem)`` gives the copying problem on the reversed graph and ``recover``, which turns a schedule of
that problem into one of the original: every transfer backwards in direction and time, adding instead of
copying. In the dual each rank receives a chunk once; reversed, each rank sends its partial sum once, so every
contribution is added exactly once (SCCL 3.4; HeteCCL appendix I).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hetesynth.errors import InternalError
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer

DUAL: dict[CollectiveName, CollectiveName] = {"reducescatter": "allgather", "reduce": "broadcast"}

Recover = Callable[[Schedule], Schedule]


def invert(problem: Problem) -> tuple[Problem, Recover]:
    """The dual copying problem of a reduction to one rank per chunk, and the function that recovers a schedule.

    ``exclusive_reduction`` stays on: in the dual it says that a rank sends a chunk to at most one peer a step.
    """
    collective = problem.collective
    if collective.name not in DUAL:
        raise InternalError(f"{collective.name} has no dual")
    turned = problem.reversed()
    dual = replace(turned.collective, name=DUAL[collective.name])
    return replace(turned, collective=dual), reverse_schedule


def reverse_schedule(schedule: Schedule) -> Schedule:
    """Every transfer backwards in time, adding where it copied."""
    last = schedule.makespan
    turned = (Transfer(last - t.end, last - t.start, t.chunk, t.link, reduce=True) for t in schedule.transfers)
    return Schedule.of(turned, makespan=last)
