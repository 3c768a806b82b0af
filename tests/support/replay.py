"""A second replay of schedules, in a style of its own: every value is a tally of contributions, every wire is
charged by walking the paths of the arcs. It shares no code with hetesynth.judge, nor ``Problem.resources``.

``accepts(problem, schedule)``: whether the schedule does what the collective asks without breaking a law.
"""

from __future__ import annotations

import numpy as np

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule


def accepts(problem: Problem, schedule: Schedule) -> bool:
    """True for a good schedule."""
    return complaint(problem, schedule) is None


def complaint(problem: Problem, schedule: Schedule) -> str | None:
    """The first thing wrong, or None."""
    arcs, wanted = problem.arcs, problem.collective
    for t in schedule.transfers:
        if t.link not in range(len(arcs)):
            return "link"
        if t.chunk not in range(len(wanted.chunks)):
            return "chunk"
    return _overload(problem, schedule) or _collision(problem, schedule) or _history(problem, schedule)


def _overload(problem: Problem, schedule: Schedule) -> str | None:
    ticks = schedule.makespan + 1
    on_arc = np.zeros((ticks, len(problem.arcs)), dtype=int)
    on_wire = np.zeros((ticks, len(problem.segments)), dtype=int)
    for t in schedule.transfers:
        on_arc[t.start : t.end, t.link] += 1
        for s in problem.arcs[t.link].segments:
            on_wire[t.start : t.end, s] += 1
    if (on_arc > np.array([arc.capacity for arc in problem.arcs])).any():
        return "arc"
    for s, segment in enumerate(problem.segments):
        if segment.capacity is not None and on_wire[:, s].max() > segment.capacity:
            return "wire"
    for group in problem.groups:
        if on_arc[:, list(group.arcs)].sum(axis=1).max() > group.capacity:
            return "group"
    return None


def _collision(problem: Problem, schedule: Schedule) -> str | None:
    """Eq. 8, on the receiving side of a reduction and on the sending side of its reversal."""
    if not problem.exclusive_reduction:
        return None
    seen: set[tuple[int, int, int]] = set()
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        if problem.collective.reduces:
            if not t.reduce:
                continue
            mark = (t.end, arc.dst, t.chunk)
        else:
            mark = (t.start, arc.src, t.chunk)
        if mark in seen:
            return "exclusion"
        seen.add(mark)
    return None


def _history(problem: Problem, schedule: Schedule) -> str | None:
    wanted = problem.collective
    n = problem.ranks
    tally = np.zeros((n, len(wanted.chunks), n), dtype=int)  # [rank, chunk, contributor]
    for k, pre in enumerate(wanted.pre):
        for r in pre:
            tally[r, k, r] = 1
    in_flight: list[tuple[int, int, int, bool, np.ndarray]] = []
    for now in range(schedule.makespan + 1):
        landing = [f for f in in_flight if f[0] == now]
        in_flight = [f for f in in_flight if f[0] != now]
        places = [(f[1], f[2]) for f in landing if not f[3]]
        for place in places:
            if sum((f[1], f[2]) == place for f in landing) > 1:
                return "race"  # a copy and something else land in one place at once
        for _, rank, k, adds, value in landing:
            if adds:
                tally[rank, k] += value
                if tally[rank, k].max() > 1:
                    return "twice"
            else:
                if tally[rank, k].any() and (value <= tally[rank, k]).all():
                    return "redundant"
                tally[rank, k] = value
        for t in schedule.transfers:
            if t.start == now:
                arc = problem.arcs[t.link]
                value = tally[arc.src, t.chunk].copy()
                if not value.any():
                    return "nothing to send"
                in_flight.append((t.end, arc.dst, t.chunk, t.reduce, value))
    for k, (pre, post) in enumerate(zip(wanted.pre, wanted.post, strict=True)):
        full = np.zeros(n, dtype=int)
        full[sorted(pre)] = 1
        for r in post:
            if (tally[r, k] != (full if wanted.reduces else tally[r, k])).any():
                return "wrong value"
            if not wanted.reduces and tally[r, k].sum() != 1:
                return "missing"
    return None
