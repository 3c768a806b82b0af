"""Allreduce as reduce-scatter followed by allgather (HeteCCL appendix I).

``split(problem)`` gives the two phases, chunk k being reduced at rank k mod n (eq. 7), and ``join``, which
puts their schedules one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hetesynth.errors import InternalError
from hetesynth.model.collective import Collective
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule

Join = Callable[[Schedule, Schedule], Schedule]


def split(problem: Problem) -> tuple[Problem, Problem, Join]:
    """The reduce-scatter phase, the allgather phase, and the function that joins their schedules.

    The exclusion of eq. 8 is a law of the first phase only: the second adds nothing.
    """
    whole = problem.collective
    if whole.name != "allreduce":
        raise InternalError(f"{whole.name} is not composed")
    roots = tuple(frozenset(chunk.block) for chunk in whole.chunks)
    scatter = Collective("reducescatter", whole.ranks, whole.chunks_per_rank, None, whole.chunks, whole.pre, roots)
    gather = Collective("allgather", whole.ranks, whole.chunks_per_rank, None, whole.chunks, roots, whole.post)
    few = problem.max_peers
    if few is not None and few < whole.ranks - 1:
        few = max(1, few // 2)  # the phases share the connections
    first = replace(problem, collective=scatter, max_peers=few)
    second = replace(problem, collective=gather, exclusive_reduction=False, max_peers=few)
    return first, second, _one_after_the_other


def _one_after_the_other(first: Schedule, second: Schedule) -> Schedule:
    offset = first.makespan
    later = (replace(t, start=t.start + offset, end=t.end + offset) for t in second.transfers)
    return Schedule.of([*first.transfers, *later], makespan=offset + second.makespan)
