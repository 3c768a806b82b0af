"""The first judge: replays a schedule transfer by transfer and says what is wrong with it.

It knows nothing of how the schedule was found and uses none of that code. Values are sets of contributing ranks
(model/collective.py), so a value added twice is caught as an overlap and a lost one as an incomplete set.

Laws: capacity of links and groups at every tick (HeteCCL eq. 4, 5), no chunk received twice by a rank of a
copying collective (eq. 6) nor sent to one that holds it (eq. 2), causality (eq. 2, 3), at most one addition
to the same chunk at a rank in a tick where the problem asks for it (eq. 8), no copy landing together with an
addition, delivery (post).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import Violation, ViolationKind

ARRAY_TRANSFERS = 20_000
"""From so many on arrays look first, which say that a schedule is right but not what is wrong; what does not pass
is replayed. Allgather on a ring: replayed 11 ms at 4,032 transfers and 33 ms at 20,022, on arrays 3 and 9."""
MOST_CELLS = 1 << 28  # of a table


def schedule_violations(problem: Problem, schedule: Schedule) -> list[Violation]:
    """Everything wrong with ``schedule``; transfers that name no link or chunk end the check early."""
    if len(schedule.transfers) >= ARRAY_TRANSFERS and surely_clean(problem, schedule):
        return []
    malformed = []
    for t in schedule.transfers:
        if not 0 <= t.link < len(problem.arcs):
            message = f"step {t.start}: there is no link {t.link}"
            malformed.append(Violation("no-such-link", message, step=t.start, link=t.link))
        if not 0 <= t.chunk < len(problem.collective.chunks):
            message = f"step {t.start}: there is no chunk {t.chunk}"
            malformed.append(Violation("no-such-chunk", message, step=t.start, chunk=t.chunk))
        if t.end > schedule.makespan:
            message = f"chunk {t.chunk}: arrives at {t.end}, after the end of the schedule"
            malformed.append(Violation("wrong-tick", message, step=t.start, chunk=t.chunk))
    return malformed or [
        *_overloads(problem, schedule),
        *_meetings(problem, schedule),
        *_too_many_peers(problem, schedule),
        *_replay(problem, schedule),
    ]


def _overloads(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Eq. 4 and 5: at every tick, no resource carries more chunks than its capacity."""
    load: dict[int, Counter[int]] = defaultdict(Counter)
    for t in schedule.transfers:
        for tick in range(t.start, t.end):
            load[tick][t.link] += 1
    of_arc: dict[int, list[int]] = defaultdict(list)
    for r, resource in enumerate(problem.resources):
        for a in resource.arcs:
            of_arc[a].append(r)
    for tick in sorted(load):
        carried: Counter[int] = Counter()
        for a, count in load[tick].items():
            for r in of_arc[a]:
                carried[r] += count
        for r in sorted(carried):
            resource = problem.resources[r]
            if carried[r] > resource.capacity:
                over = f"{carried[r]} chunks, its capacity is {resource.capacity}"
                message = f"step {tick}: {resource.name} carries {over}"
                yield Violation("overloaded", message, step=tick, resource=resource.name)


def _meetings(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Eq. 8: in one step a rank adds at most one arriving value to the same chunk.

    In a copying problem, which then stands for a reversed reduction, it sends the chunk to at most one peer. Of a
    reduction no copy lands together with another value of the chunk: which of the two stays is not defined. (A
    copying collective forbids the second arrival anyway.)
    """
    if not problem.collective.reduces:
        if not problem.exclusive_reduction:
            return
        sends = Counter((t.start, problem.arcs[t.link].src, t.chunk) for t in schedule.transfers)
        for (start, rank, chunk), count in sorted(sends.items()):
            if count > 1:
                message = f"step {start}: rank {rank} sends chunk {chunk} to {count} peers at once"
                yield Violation("not-exclusive", message, step=start, rank=rank, chunk=chunk)
        return
    landing: dict[tuple[int, int, int], list[Transfer]] = defaultdict(list)
    for t in schedule.transfers:
        landing[t.end, problem.arcs[t.link].dst, t.chunk].append(t)
    together = [(place, ts) for place, ts in sorted(landing.items()) if len(ts) > 1]
    for (end, rank, chunk), transfers in together:
        additions = sum(t.reduce for t in transfers)
        if problem.exclusive_reduction and additions > 1:
            message = f"step {end - 1}: rank {rank} adds {additions} values to chunk {chunk} at once"
            yield Violation("not-exclusive", message, step=end - 1, rank=rank, chunk=chunk)
    for (end, rank, chunk), transfers in together:
        if not all(t.reduce for t in transfers):
            message = f"step {end - 1}: rank {rank} copies over chunk {chunk} while another value of it arrives"
            yield Violation("not-exclusive", message, step=end - 1, rank=rank, chunk=chunk)


def _too_many_peers(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """A rank has at most ``max_peers`` peers to send to, and as many to receive from."""
    if problem.max_peers is None:
        return
    sends_to: dict[int, set[int]] = defaultdict(set)
    receives_from: dict[int, set[int]] = defaultdict(set)
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        sends_to[arc.src].add(arc.dst)
        receives_from[arc.dst].add(arc.src)
    for verb, peers in (("sends to", sends_to), ("receives from", receives_from)):
        for rank in sorted(peers):
            if len(peers[rank]) > problem.max_peers:
                message = f"rank {rank} {verb} {len(peers[rank])} others, its limit is {problem.max_peers}"
                yield Violation("too-many-peers", message, rank=rank)


def _replay(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Who sends what it does not hold, what is received twice, and, at the end, what is missing."""
    collective = problem.collective
    values: dict[tuple[int, int], int] = {}  # (rank, chunk) -> bit set of the ranks whose input the value holds
    for k, holders in enumerate(collective.pre):
        for r in holders:
            values[r, k] = 1 << r
    departures: dict[int, list[Transfer]] = defaultdict(list)
    arrivals: dict[int, list[tuple[Transfer, int]]] = defaultdict(list)
    for t in schedule.transfers:
        departures[t.start].append(t)
    for tick in range(schedule.makespan + 1):
        for t, value in arrivals.pop(tick, []):
            rank = problem.arcs[t.link].dst
            before = values.get((rank, t.chunk), 0)
            kind: ViolationKind | None = None
            if t.reduce and before & value:
                kind, what = "contribution-twice", f"adds to chunk {t.chunk} what it already holds"
            elif not t.reduce and before and before | value == before:
                kind = "already-held" if rank in collective.pre[t.chunk] else "received-twice"
                what = f"receives chunk {t.chunk}, which it already holds"
            if kind is not None:
                text = f"step {t.start}: rank {rank} {what}"
                yield Violation(kind, text, step=t.start, rank=rank, chunk=t.chunk, link=t.link)
            values[rank, t.chunk] = before | value if t.reduce else value
        for t in departures.pop(tick, []):
            source = problem.arcs[t.link].src
            value = values.get((source, t.chunk), 0)
            if not value:
                message = f"step {t.start}: rank {source} sends chunk {t.chunk} before it holds it"
                yield Violation("not-held", message, step=t.start, rank=source, chunk=t.chunk, link=t.link)
            arrivals[t.end].append((t, value))
    for k, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True)):
        complete = sum(1 << r for r in pre)
        for rank in sorted(post):
            missing = (complete & ~values.get((rank, k), 0)).bit_count()
            if values.get((rank, k), 0) != complete:
                lacks = f"{missing} of {complete.bit_count()} contributions to chunk {k}"
                message = f"after step {schedule.makespan}: rank {rank} lacks {lacks}"
                yield Violation("not-delivered", message, step=schedule.makespan, rank=rank, chunk=k)


def surely_clean(problem: Problem, schedule: Schedule) -> bool:
    """True only when every law holds, of one-step copies of chunks with one origin: looked at on arrays, all at
    once. False says nothing."""
    import numpy as np

    collective, makespan, arcs = problem.collective, schedule.makespan, problem.arcs
    chunks, size = len(collective.chunks), len(arcs)
    if collective.reduces or any(len(pre) != 1 for pre in collective.pre):
        return False
    if any(t.reduce or t.end != t.start + 1 for t in schedule.transfers):
        return False
    rows = [(t.start, t.chunk, t.link) for t in schedule.transfers]
    table = np.array(rows, np.int64).reshape(-1, 3)
    if ((table < 0) | (table >= [makespan, chunks, size])).any():
        return False
    if max(problem.ranks, len(problem.groups) + len(problem.segments)) * (chunks + makespan) > MOST_CELLS:
        return False
    start, chunk, link = table.T
    ends = np.array([(arc.src, arc.dst) for arc in arcs], np.int64).reshape(-1, 2)[link]
    src, dst = ends.T

    # eq. 4 and 5: no resource carries more than its capacity in any step
    alone = np.full(size, np.iinfo(np.int64).max)
    for resource in problem.resources:
        if len(resource.arcs) == 1:
            alone[resource.arcs[0]] = min(alone[resource.arcs[0]], resource.capacity)
    shared = [resource for resource in problem.resources if len(resource.arcs) != 1]
    on_link, count = np.unique(start * size + link, return_counts=True)
    if (count > alone[on_link % max(1, size)]).any():
        return False
    sizes = [len(resource.arcs) for resource in shared]
    users = np.fromiter(chain.from_iterable(resource.arcs for resource in shared), np.int64, sum(sizes))
    order = np.argsort(users, kind="stable")
    begin = np.searchsorted(users[order], np.arange(size + 1))
    uses = np.diff(begin)[link]
    position = np.arange(int(uses.sum())) - np.repeat(np.cumsum(uses) - uses, uses)
    drawn = np.repeat(np.arange(len(shared)), sizes)[order][np.repeat(begin[link], uses) + position]
    load = np.bincount(np.repeat(start, uses) * len(shared) + drawn, minlength=makespan * len(shared))
    capacity = np.array([resource.capacity for resource in shared], np.int64)
    if (load.reshape(makespan, len(shared)) > capacity).any():
        return False

    if problem.max_peers is not None and len(rows):
        pairs = np.unique(src * problem.ranks + dst)
        most = max(np.bincount(pairs // problem.ranks).max(), np.bincount(pairs % problem.ranks).max())
        if most > problem.max_peers:
            return False
    # eq. 8 of the reversed reduction: a rank sends a chunk to one peer a step
    sends = (start * problem.ranks + src) * chunks + chunk
    if problem.exclusive_reduction and len(np.unique(sends)) != len(sends):
        return False
    # eq. 2, 3 and 6: who sends holds, nobody receives what it holds, and who wants a chunk has it in the end
    never = np.iinfo(np.int64).max
    since = np.full((problem.ranks, chunks), never)
    for k, pre in enumerate(collective.pre):
        since[[*pre], k] = 0
    if len(np.unique(dst * chunks + chunk)) != len(rows) or (since[dst, chunk] != never).any():
        return False
    since[dst, chunk] = start + 1
    in_time = bool((since[src, chunk] <= start).all())
    return in_time and all((since[sorted(post), k] != never).all() for k, post in enumerate(collective.post))
