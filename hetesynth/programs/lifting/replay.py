"""What a schedule moves, in the terms of ``dataflow``, so that it can be placed on other links.

In: a problem and a schedule that verifies. Out: a ``Flow``. Knows nothing of programs.
"""

from __future__ import annotations

from collections import defaultdict

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.programs.lifting.dataflow import OWN, Flow, Value, broken


def flow_of_schedule(problem: Problem, schedule: Schedule) -> Flow:
    """Replay ``schedule``. Raises HetesynthError HS702 for a transfer of what is not held."""
    flow = Flow()
    values: dict[tuple[int, int], Value] = {}
    for k, ranks in enumerate(problem.collective.pre):
        for rank in sorted(ranks):
            values[rank, k] = flow.keep(rank, Value(k, 1 << rank, frozenset((OWN,)), 0))
    arrivals: dict[int, list[tuple[int, Value, bool]]] = defaultdict(list)
    for t in schedule.transfers:  # in the order of their starts
        for end in sorted(end for end in arrivals if end <= t.start):
            _land(flow, values, arrivals.pop(end))
        arc = problem.arcs[t.link]
        value = values.get((arc.src, t.chunk))
        if value is None:
            raise broken(f"step {t.start}: rank {arc.src} sends chunk {t.chunk} before it holds it")
        place = f"step {t.start}: rank {arc.src}"
        arriving = flow.arrive(arc.src, arc.dst, value, t.start, place)
        arrivals[t.end].append((arc.dst, arriving, t.reduce))
    for end in sorted(arrivals):
        _land(flow, values, arrivals[end])
    for k, ranks in enumerate(problem.collective.post):
        for rank in sorted(ranks):
            if (rank, k) not in values:
                raise broken(f"rank {rank} never gets chunk {k}")
            flow.final[rank, k] = values[rank, k].mask
    return flow


def _land(flow: Flow, values: dict[tuple[int, int], Value], arrivals: list[tuple[int, Value, bool]]) -> None:
    for rank, value, reduce in arrivals:
        at = (rank, value.chunk)
        before = values.get(at)
        if reduce and before is not None:
            ready = max(before.ready, value.ready)
            value = Value(value.chunk, before.mask | value.mask, before.leaves | value.leaves, ready)
            flow.keep(rank, value)
        values[at] = value
