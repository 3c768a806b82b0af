"""The first judge: replays a schedule transfer by transfer and says what is wrong with it.

It knows nothing of how the schedule was found and uses none of that code. Values are sets of contributing ranks
(model/collective.py), so a value added twice is caught as an overlap and a lost one as an incomplete set.

Laws: capacity of links and groups at every tick (HeteCCL eq. 4, 5), no chunk received twice by a rank of a
copying collective (eq. 6) nor sent to one that holds it (eq. 2), causality (eq. 2, 3), at most one addition
to the same chunk at a rank in a step where the problem asks for it (eq. 8), no copy landing together with an
addition, delivery (post). What a header claims of a right schedule is held against it, and against bounds.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import Violation, ViolationKind


def schedule_violations(problem: Problem, schedule: Schedule) -> list[Violation]:
    """Everything wrong with ``schedule``; transfers that name no link or chunk end the check early."""
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
    if schedule.rounds and (min(schedule.rounds) < 1 or sum(schedule.rounds) != schedule.makespan):
        malformed.append(Violation("wrong-tick", f"its rounds are not the {schedule.makespan} ticks"))
    elif schedule.rounds:
        malformed += (
            Violation("wrong-tick", f"chunk {t.chunk}: takes more than a round", step=t.start, chunk=t.chunk)
            for t in schedule.transfers
            if t.end != t.start + 1
        )
    if malformed:
        return malformed
    played = _by_step(schedule) if schedule.rounds else schedule
    return [
        *_overloads(problem, schedule),
        *_meetings(problem, played),
        *_too_many_peers(problem, schedule),
        *_replay(problem, played),
    ]


def _by_step(schedule: Schedule) -> Schedule:
    """Return ``schedule`` with steps for ticks: what leaves in a step was there before, and arrives at its end."""
    ends = list(accumulate(schedule.rounds))
    steps = ((t, bisect_right(ends, t.start)) for t in schedule.transfers)
    return Schedule.of((Transfer(s, s + 1, t.chunk, t.link, t.reduce) for t, s in steps), len(ends))


def _overloads(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Yield breaches of eq. 4 and 5: at every tick, no resource carries more chunks than its capacity."""
    resources = problem.resources
    of_arc: dict[int, list[int]] = defaultdict(list)
    for r, resource in enumerate(resources):
        for a in resource.arcs:
            of_arc[a].append(r)
    load = Counter((tick, t.link) for t in schedule.transfers for tick in range(t.start, t.end))
    carried: Counter[tuple[int, int]] = Counter()
    for (tick, a), count in load.items():
        for r in of_arc[a]:
            carried[tick, r] += count
    for tick, r in sorted(at for at, count in carried.items() if count > resources[at[1]].capacity):
        name, capacity = resources[r].name, resources[r].capacity
        message = f"step {tick}: {name} carries {carried[tick, r]} chunks, its capacity is {capacity}"
        yield Violation("overloaded", message, step=tick, resource=name)


def _meetings(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Yield breaches of eq. 8: in one step a rank adds at most one arriving value to the same chunk.

    In a copying problem, which then stands for a reversed reduction, a rank sends the chunk to at most one peer.
    In a reduction no copy lands together with another value of the chunk: which of the two stays is not defined.
    (A copying collective forbids the second arrival anyway.)
    """
    if not problem.collective.reduces:
        if not problem.exclusive_reduction:
            return
        sends = Counter((t.start, problem.arcs[t.link].src, t.chunk) for t in schedule.transfers)
        for (start, rank, chunk), count in sorted(sends.items()):
            if count > 1:
                message = f"step {start}: rank {rank} sends chunk {chunk} to {count} peers at once (eq. 8)"
                yield Violation("not-exclusive", message, step=start, rank=rank, chunk=chunk)
        return
    landing: dict[tuple[int, int, int], list[Transfer]] = defaultdict(list)
    for t in schedule.transfers:
        landing[t.end, problem.arcs[t.link].dst, t.chunk].append(t)
    together = [(place, ts) for place, ts in sorted(landing.items()) if len(ts) > 1]
    for (end, rank, chunk), transfers in together:
        additions = sum(t.reduce for t in transfers)
        if problem.exclusive_reduction and additions > 1:
            message = f"step {end - 1}: rank {rank} adds {additions} values to chunk {chunk} at once (eq. 8)"
            yield Violation("not-exclusive", message, step=end - 1, rank=rank, chunk=chunk)
    for (end, rank, chunk), transfers in together:
        if not all(t.reduce for t in transfers):
            message = f"step {end - 1}: rank {rank} copies over chunk {chunk} while another value of it arrives"
            yield Violation("race", message, step=end - 1, rank=rank, chunk=chunk)


def _too_many_peers(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Yield the ranks that have more than ``max_peers`` peers to send to, or to receive from."""
    if problem.max_peers is None:
        return
    pairs = {(problem.arcs[t.link].src, problem.arcs[t.link].dst) for t in schedule.transfers}
    for end, verb in enumerate(("sends to", "receives from")):
        for rank, peers in sorted(Counter(pair[end] for pair in pairs).items()):
            if peers > problem.max_peers:
                message = f"rank {rank} {verb} {peers} others, its limit is {problem.max_peers}"
                yield Violation("too-many-peers", message, rank=rank)


def _replay(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Yield sends of what is not held, what is received or added twice, and, at the end, what is missing."""
    collective = problem.collective
    values: dict[tuple[int, int], int] = {}  # (rank, chunk) -> bit set of the ranks whose input the value holds
    for k, holders in enumerate(collective.pre):
        for r in holders:
            values[r, k] = 1 << r
    departures: dict[int, list[Transfer]] = defaultdict(list)
    arrivals: dict[int, list[tuple[Transfer, int]]] = defaultdict(list)
    for t in schedule.transfers:
        departures[t.start].append(t)
    for tick in sorted({tick for t in schedule.transfers for tick in (t.start, t.end)}):
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


RECOMPUTED = frozenset({"trivial", "distance", "cut", "last-step", "flow", "doubling", "volume", "growth"})
"""Methods of bounds that give the same number of steps each time, whatever the effort."""


def claim_violations(header: Mapping[str, Any], steps: int) -> list[Violation]:
    """Return claims of ``header`` that a right schedule of ``steps`` steps, or another claim, contradicts."""
    bound, optimal, wrong = header.get("lower_bound"), header.get("proven_optimal"), list[str]()
    if bound is not None and bound > steps:
        wrong.append(f"no schedule is said to have fewer than {bound} steps; this one has {steps}")
    if optimal is not None and optimal != (bound == steps):
        said = "no lower bound is stated" if bound is None else f"its lower bound is {bound}"
        word = "optimal" if optimal else "not proved optimal"
        wrong.append(f"it is said to be {word}; it has {steps} steps, and {said}")
    return [Violation("certificate", text) for text in wrong]


def bound_violations(header: Mapping[str, Any], proved: int, *, same_links: bool) -> tuple[list[Violation], str]:
    """Return what is wrong with a stated bound where no more than ``proved`` steps are proved on the links at
    hand, and a note where it may hold all the same (on other links, or by a method that depends on the effort)."""
    bound, method = header.get("lower_bound", 0), header.get("bound_method")
    if bound <= proved:
        return [], ""
    said = f"the lower bound of {bound} steps ({method})"
    if same_links and method in RECOMPUTED:
        return [Violation("certificate", f"{said} does not hold: {proved} are what is proved")], ""
    return [], f"{said} was not checked: {proved} are what is proved here"
