"""The inner loops of list scheduling in seconds, interpreted or compiled.

In: deliveries, what each waits for and uses, as records of arrays. Out: when each begins. What a delivery does to
the resources is the same in both loops (``earliest_start``, ``book``); they differ in how the next delivery is
chosen. ``run_queue`` keeps all that are ready in one queue and computes urgencies anew now and then: for any
routes, and quick for many deliveries. ``run_scan`` looks at every path before each choice, so that its urgencies
are always those of the moment: for paths only, and quadratic in their number.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from hetesynth.search.machine_code import Row

ROUNDING = 1e-15  # seconds by which an entry of the queue may be too early


class Deliveries(NamedTuple):
    """N deliveries, R resources: what is read."""

    parent: (
        Row  # N: the delivery that brings the chunk to the sender, -1: it is there; parents come before children
    )
    uses_start: Row  # N + 1: where the resources of each delivery begin in ``uses``
    uses: Row  # resources, delivery after delivery
    flow: Row  # N: seconds that it takes
    busy: Row  # R: seconds that a delivery keeps the resource busy


class QueueRules(NamedTuple):
    """Of those that are ready the first to begin goes first, among equals the most urgent."""

    pressure: float  # seconds of urgency for each second of work that a resource of the delivery still has
    same_start: float  # seconds: starts are rounded to multiples of it; 0: they are not
    lead: float  # seconds that a delivery may go ahead of another for each second that it is more urgent
    update_deliveries: int  # urgencies are computed anew after so many deliveries
    update_seconds: float  # and after so many seconds


class ScanRules(NamedTuple):
    """Of those that can begin within ``same_start`` seconds of the first the most urgent goes first."""

    pressure: float  # seconds of urgency for each second of work that a resource of the rest of its path still has
    same_start: float


class QueueProgress(NamedTuple):
    """What ``run_queue`` changes."""

    left: Row  # R: seconds of work that the resource still has
    free: Row  # R: when the resource is free
    begins: Row  # N: the result
    ready: Row  # N: when the sender has the chunk
    done: Row  # N
    urgency: Row  # N
    child: Row  # N: the first delivery that waits for this one, -1: none does
    sibling: Row  # N: the next that waits for the same one


class Paths(NamedTuple):
    """K paths as rows of deliveries: what ``run_scan`` reads."""

    end: Row  # K: one past the last delivery of the path
    tail: Row  # N: seconds from the end of the delivery until its chunk is at its goal, on idle links


class ScanProgress(NamedTuple):
    """What ``run_scan`` changes."""

    left: Row  # R
    free: Row  # R
    begins: Row  # N: the result
    ready: Row  # K: when the chunk is where its next delivery begins
    at: Row  # K: the next delivery of the path
    open_paths: Row  # K: paths with deliveries left; the first entries


def earliest_start(d: Deliveries, free: Row, i: int, ready: float) -> float:
    """When delivery ``i`` can begin whose chunk is there at ``ready``."""
    start = ready
    for j in range(d.uses_start[i], d.uses_start[i + 1]):
        if free[d.uses[j]] > start:
            start = free[d.uses[j]]
    return start


def book(d: Deliveries, free: Row, left: Row, i: int, start: float) -> None:
    """Delivery ``i`` keeps its resources busy from ``start`` on."""
    for j in range(d.uses_start[i], d.uses_start[i + 1]):
        r = d.uses[j]
        free[r] = start + d.busy[r]
        left[r] -= d.busy[r]


def link_children(d: Deliveries, p: QueueProgress) -> None:
    """``child`` and ``sibling``."""
    for i in range(len(d.parent)):
        p.child[i] = -1
        p.sibling[i] = -1
    for i in range(len(d.parent) - 1, -1, -1):
        if d.parent[i] >= 0:
            p.sibling[i] = p.child[d.parent[i]]
            p.child[d.parent[i]] = i


def set_urgencies(d: Deliveries, p: QueueProgress, pressure: float) -> None:
    """Seconds that each delivery stands before: of work of the busiest resource of it, or of a delivery that waits
    for it, and the flow of those between."""
    for i in range(len(d.parent)):
        p.urgency[i] = 0.0
    for i in range(len(d.parent) - 1, -1, -1):
        if p.done[i]:
            continue
        for j in range(d.uses_start[i], d.uses_start[i + 1]):
            p.urgency[i] = max(p.urgency[i], pressure * p.left[d.uses[j]])
        above = d.parent[i]
        if above >= 0:
            p.urgency[above] = max(p.urgency[above], p.urgency[i] + d.flow[i])


def queue_key(rules: QueueRules, start: float, urgency: float) -> float:
    """The place in the queue of what can begin at ``start``."""
    if rules.same_start > 0.0:
        return float(int(start / rules.same_start + 0.5))
    return start - rules.lead * urgency


def ready_queue(d: Deliveries, rules: QueueRules, p: QueueProgress) -> list[tuple[float, float, int]]:
    """A heap of the deliveries whose senders have the chunk."""
    queue = [(0.0, 0.0, 0)]
    queue.pop()
    for i in range(len(d.parent)):
        if not p.done[i] and (d.parent[i] < 0 or p.done[d.parent[i]]):
            start = earliest_start(d, p.free, i, p.ready[i])
            queue.append((queue_key(rules, start, p.urgency[i]), -p.urgency[i], i))
    heapify(queue)
    return queue


def run_queue(d: Deliveries, rules: QueueRules, p: QueueProgress) -> float:
    """Fill ``begins``; the seconds until all has arrived."""
    link_children(d, p)
    count, last, until = 0, 0.0, 0.0
    while count < len(d.parent):
        set_urgencies(d, p, rules.pressure)
        queue = ready_queue(d, rules, p)
        until = max(until, max(rules.update_seconds, queue[0][0] + rules.update_seconds))
        most = count + rules.update_deliveries
        while count < most and len(queue) > 0 and queue[0][0] <= until:
            key, second, i = heappop(queue)
            start = earliest_start(d, p.free, i, p.ready[i])
            now = queue_key(rules, start, p.urgency[i])
            if now > key + ROUNDING:
                heappush(queue, (now, second, i))
                continue
            book(d, p.free, p.left, i, start)
            p.begins[i] = start
            p.done[i] = True
            count += 1
            end = start + d.flow[i]
            last = max(last, end)
            c = p.child[i]
            while c >= 0:
                p.ready[c] = end
                heappush(queue, (queue_key(rules, end, p.urgency[c]), -p.urgency[c], c))
                c = p.sibling[c]
    return last


def next_path(d: Deliveries, paths: Paths, rules: ScanRules, p: ScanProgress, count: int) -> int:
    """The place in ``open_paths`` of the path whose next delivery goes first.

    Its loops are no functions, and its arrays have names of their own: called with records for every path it took
    three times as long compiled, with arrays 1.4 times as long.
    """
    uses_start, uses, free, left, ready, at = d.uses_start, d.uses, p.free, p.left, p.ready, p.at
    open_paths, end, tail = p.open_paths, paths.end, paths.tail
    same_start, pressure = rules.same_start, rules.pressure
    first = np.inf
    most = -np.inf
    best = -1
    for place in range(count):
        k = open_paths[place]
        start = ready[k]
        if start > first + same_start:
            continue
        i = at[k]
        for j in range(uses_start[i], uses_start[i + 1]):
            if free[uses[j]] > start:
                start = free[uses[j]]
        if start > first + same_start:
            continue
        work = 0.0
        for j in range(uses_start[i], uses_start[end[k]]):
            if left[uses[j]] > work:
                work = left[uses[j]]
        urgency = pressure * work + tail[i]
        if start < first - same_start or urgency > most or (urgency == most and k < open_paths[best]):
            first = min(first, start)
            most = urgency
            best = place
    return best


def run_scan(d: Deliveries, paths: Paths, rules: ScanRules, p: ScanProgress) -> float:
    """Fill ``begins``; the seconds until all has arrived."""
    count, last = len(paths.end), 0.0
    while count > 0:
        place = next_path(d, paths, rules, p, count)
        k = p.open_paths[place]
        i = p.at[k]
        start = earliest_start(d, p.free, i, p.ready[k])
        book(d, p.free, p.left, i, start)
        p.begins[i] = start
        p.ready[k] = start + d.flow[i]
        p.at[k] += 1
        if p.at[k] == paths.end[k]:
            last = max(last, p.ready[k])
            count -= 1
            p.open_paths[place] = p.open_paths[count]
    return last
