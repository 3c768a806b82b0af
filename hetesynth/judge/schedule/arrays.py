"""The laws of schedules on arrays: whether a large schedule of copies keeps them all, at once.

Where one is broken, or was not looked at, ``judge.py`` replays transfer by transfer and says what is wrong.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule

Ints = NDArray[np.int64]

MOST_CELLS = 1 << 28  # of a table


def surely_clean(problem: Problem, schedule: Schedule) -> bool:
    """True only when every law of ``judge.py`` holds. Of one-step copies of chunks with one origin; else False."""
    collective = problem.collective
    chunks = len(collective.chunks)
    if collective.reduces or any(len(pre) != 1 for pre in collective.pre):
        return False
    if any(t.reduce or t.end != t.start + 1 for t in schedule.transfers):
        return False
    start = _column([t.start for t in schedule.transfers])
    chunk = _column([t.chunk for t in schedule.transfers])
    link = _column([t.link for t in schedule.transfers])
    if not (_within(start, schedule.makespan) and _within(chunk, chunks) and _within(link, len(problem.arcs))):
        return False
    if max(problem.ranks, len(problem.groups) + len(problem.segments)) * (chunks + schedule.makespan) > MOST_CELLS:
        return False
    src = _column([arc.src for arc in problem.arcs])[link]
    dst = _column([arc.dst for arc in problem.arcs])[link]
    return (
        _fits(problem, start, link, schedule.makespan)
        and _met(problem, src, dst)
        and _exclusive(problem, start, src, chunk)
        and _delivers(problem, start, chunk, src, dst)
    )


def _column(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _within(values: Ints, limit: int) -> bool:
    return not len(values) or (int(values.min()) >= 0 and int(values.max()) < limit)


def _fits(problem: Problem, start: Ints, link: Ints, makespan: int) -> bool:
    """Eq. 4 and 5: no resource carries more than its capacity in any step."""
    alone = np.full(len(problem.arcs), np.iinfo(np.int64).max)
    shared = []
    for resource in problem.resources:
        if len(resource.arcs) == 1:
            alone[resource.arcs[0]] = min(alone[resource.arcs[0]], resource.capacity)
        else:
            shared.append(resource)
    on_link, count = np.unique(start * len(problem.arcs) + link, return_counts=True)
    if (count > alone[on_link % len(problem.arcs)]).any():
        return False
    sizes = [len(resource.arcs) for resource in shared]
    arcs = np.fromiter(chain.from_iterable(resource.arcs for resource in shared), np.int64, sum(sizes))
    order = np.argsort(arcs, kind="stable")
    of_arc = np.repeat(np.arange(len(shared)), sizes)[order]
    begin = np.searchsorted(arcs[order], np.arange(len(problem.arcs) + 1))
    uses = np.diff(begin)[link]
    position = np.arange(int(uses.sum())) - np.repeat(np.cumsum(uses) - uses, uses)
    drawn = of_arc[np.repeat(begin[link], uses) + position]
    load = np.bincount(np.repeat(start, uses) * len(shared) + drawn, minlength=makespan * len(shared))
    capacity = _column([resource.capacity for resource in shared])
    return bool((load.reshape(makespan, len(shared)) <= capacity).all())


def _met(problem: Problem, src: Ints, dst: Ints) -> bool:
    """No rank has more peers, to send to or to receive from, than the problem allows."""
    if problem.max_peers is None or not len(src):
        return True
    pairs = np.unique(src * problem.ranks + dst)
    sends, receives = np.bincount(pairs // problem.ranks), np.bincount(pairs % problem.ranks)
    return int(max(sends.max(), receives.max())) <= problem.max_peers


def _exclusive(problem: Problem, start: Ints, src: Ints, chunk: Ints) -> bool:
    """Eq. 8 of the reversed reduction: a rank sends a chunk to one peer a step."""
    if not problem.exclusive_reduction:
        return True
    sends = (start * problem.ranks + src) * len(problem.collective.chunks) + chunk
    return len(np.unique(sends)) == len(sends)


def _delivers(problem: Problem, start: Ints, chunk: Ints, src: Ints, dst: Ints) -> bool:
    """Eq. 2, 3 and 6: who sends holds, nobody receives what it holds, and who wants a chunk has it in the end."""
    collective = problem.collective
    never = np.iinfo(np.int64).max
    since = np.full((problem.ranks, len(collective.chunks)), never)
    for k, pre in enumerate(collective.pre):
        since[[*pre], k] = 0
    place = dst * len(collective.chunks) + chunk
    if len(np.unique(place)) != len(place) or (since[dst, chunk] != never).any():
        return False
    since[dst, chunk] = start + 1
    if (since[src, chunk] > start).any():
        return False
    return all((since[sorted(post), k] != never).all() for k, post in enumerate(collective.post))
